// The forward pass of a generation: the whole model's bytes, whether what no step changes is kept or not.
#include <gtest/gtest.h>

#include "conformance/claims.h"
#include "conformance/generation/reduced.h"
#include "harness/full_model/full_model.h"
#include "harness/generation/model_forward.h"

namespace h3 {
namespace {

class Forward : public testing::TestWithParam<const char*> {
 protected:
  const GenerationContract contract = read_contract(contract_file(GetParam()));
  const std::unique_ptr<Weights> weights = open_weights("", contract.weights_seed, contract.config);
  const std::unique_ptr<Execution> engine = cpu_execution(contract.config);

  Values inputs(std::int64_t evaluation) const {
    const GenerationState state = initial_state(contract, contract.seeds.front() + std::uint64_t(evaluation),
                                                keyframe_latents(contract));
    return evaluation_inputs(contract.layout(evaluation), state, text_condition(contract));
  }
};

TEST_P(Forward, gives_the_whole_models_bytes) {
  const Values given = inputs(20);
  FullModel whole(*engine, *weights, given);
  Values expected;
  while (whole.next_forward())
    for (auto& [name, tensor] : whole.forward_stage()) expected[name] = tensor;
  const Values got = ModelForward(*engine, *weights).evaluate(given);
  for (const char* output : kModelOutputs)
    EXPECT_TRUE(bitwise_equal(expected.at(output), got.at(output))) << output;
}

// Other times, other rows, another set of distinct timesteps (0 and 20), and back again.
TEST_P(Forward, keeps_what_no_step_changes_and_changes_no_byte) {
  ModelForward keeping(*engine, *weights), computing(*engine, *weights, false);
  for (const std::int64_t evaluation : {0, 20, 48, 0}) {
    const Values kept = keeping.evaluate(inputs(evaluation)),
                 computed = computing.evaluate(inputs(evaluation));
    for (const char* output : kModelOutputs)
      EXPECT_TRUE(bitwise_equal(computed.at(output), kept.at(output))) << evaluation << output;
  }
  const auto fixed = std::int64_t(fixed_nodes(model_stages(contract.config)).size());
  EXPECT_EQ(computing.nodes_run() - keeping.nodes_run(), 3 * fixed);
}

// The rotary tables, and the text up to its last norm: 14 nodes in each refiner block.
TEST_P(Forward, knows_what_no_step_changes) {
  std::set<std::string> expected = {"rotary_cos", "rotary_sin", "context_embedder",
                                    "token_refiner.final_norm"};
  for (std::int64_t j = 0; j < contract.config.num_refiner_layers; ++j) {
    const Graph block = refiner_block(contract.config, j);
    for (const Node& node : block.nodes) expected.insert(block.name + "." + node.name);
  }
  EXPECT_EQ(fixed_nodes(model_stages(contract.config)), expected);
}

INSTANTIATE_TEST_SUITE_P(generation, Forward, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
