// The drift ledger: its shares add up to the measured drift, and a planted error is the share of its stage.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance/fullmodel/reduced.h"
#include "harness/full_model/drift_ledger.h"

namespace h3 {
namespace {

// The golden, with noise of one part in a thousand in the output of one block.
class NoisyGolden : public ExecutionOver {
 public:
  NoisyGolden(const Config& config, std::string parameter)
      : ExecutionOver(golden_execution(false, config)), parameter_(std::move(parameter)) {}
  std::string name() const override { return "noisy golden"; }
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    Tensor output = base().run(node, inputs, parameters);
    if (std::ranges::count(node.parameters, parameter_) == 0) return output;
    float sign = 1e-3f;
    for (float& value : output.values<float>()) value *= 1 + (sign = -sign);
    return output;
  }

 private:
  std::string parameter_;
};

DriftLedger ledger_of(const Execution& candidate, std::int64_t blocks = 1) {
  const ReducedModel& model = reduced_model();
  return drift_ledger(candidate, *model.golden, *model.weights, model.layout, model.bounds.seed, {}, blocks);
}

class ModelLedger : public testing::TestWithParam<const char*> {};

TEST_P(ModelLedger, adds_up_to_the_measured_drift) {
  const DriftLedger ledger = ledger_of(*cpu_execution(reduced_model().config));
  double video = 0, audio = 0;
  for (const auto& stage : ledger.stages) {
    video += stage.video.share;
    audio += stage.audio.share;
  }
  EXPECT_EQ(ledger.stages.size(), model_stages(reduced_model().config).size());
  EXPECT_NEAR(video, 1, 1e-9);
  EXPECT_NEAR(audio, 1, 1e-9);
  EXPECT_GT(ledger.video, 1e-3);
  EXPECT_GT(ledger.audio, 1e-3);
}

TEST_P(ModelLedger, has_as_many_blocks_to_a_line_as_asked) {
  const DriftLedger ledger =
      ledger_of(NoisyGolden(reduced_model().config, "transformer_blocks.2.ff.net.2.weight"), 3);
  std::vector<std::string> lines;
  for (const auto& stage : ledger.stages) {
    lines.push_back(stage.stage);
    EXPECT_NEAR(stage.video.share, stage.stage == "transformer_blocks.0 to 2", 1e-12) << stage.stage;
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"step_tables", "entry", "token_refiner.refiner_blocks.0",
                                             "token_refiner.refiner_blocks.1", "packed_sequence",
                                             "transformer_blocks.0 to 2", "transformer_blocks.3", "exit"}));
}

TEST_P(ModelLedger, gives_a_planted_error_to_its_stage) {
  const DriftLedger ledger =
      ledger_of(NoisyGolden(reduced_model().config, "transformer_blocks.2.ff.net.2.weight"));
  for (const auto& stage : ledger.stages) {
    const bool planted = stage.stage == "transformer_blocks.2";
    EXPECT_NEAR(stage.video.share, planted, 1e-12) << stage.stage;
    EXPECT_NEAR(stage.audio.share, planted, 1e-12) << stage.stage;
    EXPECT_EQ(stage.video.size > 0, planted) << stage.stage;
  }
}

INSTANTIATE_TEST_SUITE_P(fullmodel, ModelLedger, testing::Values("reduced_cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
