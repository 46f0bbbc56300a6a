// Engine cuda's evaluations: on the reduced model the bytes of its CPU twin, step by step; at the released
// width the preflight, one evaluation, sealed and verified without a GPU.
#ifdef H3_HAVE_CUDA
#include <gtest/gtest.h>

#include "conformance/block0/runs.h"
#include "conformance/claims.h"
#include "conformance/generation/reduced.h"

namespace h3 {
namespace {

class OnCuda : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE("cuda"); }
};

class GenerationTwin : public OnCuda {};

TEST_P(GenerationTwin, evaluates_to_the_same_bytes_at_every_step) {
  const GenerationContract contract = read_contract(contract_file(GetParam()));
  const auto weights = open_weights("", contract.weights_seed, contract.config);
  const auto engine = cuda_execution(contract.config);
  ModelForward model(*engine, *weights);
  GenerationState state = initial_state(contract, 42, keyframe_latents(contract));
  const Tensor text = text_condition(contract);
  for (std::int64_t e = 0; e < contract.evaluations(); ++e) {
    const PackedLayout layout = contract.layout(e);
    const Values inputs = evaluation_inputs(layout, state, text), twin = evaluate_reduced(inputs),
                 velocity = model.evaluate(inputs);
    for (const char* output : kModelOutputs)
      ASSERT_TRUE(bitwise_equal(twin.at(output), velocity.at(output))) << "step " << e << " " << output;
    state = euler_step(contract, layout, e, state, velocity);
  }
}

INSTANTIATE_TEST_SUITE_P(generation_cuda, GenerationTwin, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

class Preflight : public OnCuda {};

TEST_P(Preflight, is_sealed_and_verifies) {
  const Scratch scratch;
  const std::string folder = scratch.path("run");
  const Ended run =
      run_h3(scratch, {"run", "--contract", GetParam(), "--seed", "44", "--engine", "cuda", "--out", folder});
  ASSERT_EQ(run.end.exit_code, 0) << run.output;
  const Ended verified = run_h3_without_gpu(scratch, {"verify", folder});
  EXPECT_EQ(verified.end.exit_code, 0) << verified.output;
}

INSTANTIATE_TEST_SUITE_P(generation_cuda, Preflight, testing::Values("preflight-1"),
                         [](const auto&) { return std::string("preflight_1"); });

}  // namespace
}  // namespace h3
#endif
