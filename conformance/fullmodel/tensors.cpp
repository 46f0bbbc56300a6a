// Gate fullmodel, RFC row ws1_full_h3_transformer, on the reduced model: every value that is compared, its
// gradient, every parameter's gradient and those of the inputs, each a case of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "conformance/fullmodel/reduced.h"
#include "harness/power.h"

namespace h3 {
namespace {

struct TensorRow {
  Pass pass;
  std::string name;
};
void PrintTo(const TensorRow& row, std::ostream* out) {
  std::string name = std::string(name_of(row.pass)) + "_" + row.name;
  std::ranges::replace(name, '.', '_');
  *out << name;
}

struct Examined {
  FullModelReport report;
  std::map<std::pair<Pass, std::string>, Tensor> golden;
};

const Examined& examined() {
  static const Examined once = [] {
    Examined result;
    result.report = reduced_model().examine(
        *cpu_execution(reduced_model().config),
        [&](const TensorResult& tensor, const Tensor& golden, const Tensor& candidate) {
          result.golden[{tensor.pass, tensor.name}] = golden.reshaped(candidate.shape());
        });
    return result;
  }();
  return once;
}

class ModelTensor : public testing::TestWithParam<TensorRow> {
 protected:
  const TensorResult& result() const { return examined().report.tensor(GetParam().pass, GetParam().name); }
};

TEST_P(ModelTensor, stays_within_its_bound) {
  const TensorResult& tensor = result();
  RecordProperty("metric", "relative_l2");
  RecordProperty("limit", fmt::format("{:.9g}", tensor.bound.relative_l2));
  RecordProperty("measured", fmt::format("{:.9g}", tensor.relative_l2));
  RecordProperty("max_abs", fmt::format("{:.3e} at {}", tensor.max_abs, tensor.max_abs_index));
  RecordProperty("one_provider_rule", tensor.within_single ? "passes" : "exceeded");
  RecordProperty("xxh3_128", tensor.xxh3_128);
  EXPECT_TRUE(tensor.accepted) << tensor.reason;
  EXPECT_GT(tensor.golden_norm, 0);
}

// Zeros, a doubled and a permuted tensor are refused, or power_of throws.
TEST_P(ModelTensor, has_a_bound_that_notices_faults) {
  Bound bound;
  bound.relative_l2 = result().bound.relative_l2;
  const Power power =
      power_of(bound, examined().golden.at({GetParam().pass, GetParam().name}), result().dtype);
  RecordProperty("power", power.summary());
  EXPECT_GE(power.smallest_scale, 0);
}

// The golden and the provider's own module in float64 are two programs for one model.
TEST_P(ModelTensor, has_a_golden_of_the_providers_float64_norm) {
  // FP32 between the golden's nodes: each of fewer than a thousand roundings on a path adds at most 2^-24,
  // and a norm averages over its elements.
  constexpr double kLimit = 1000 * 0x1p-24;
  const double apart = std::fabs(result().golden_norm / result().bound.norm - 1);
  RecordProperty("metric", "norm");
  RecordProperty("limit", fmt::format("{:.9g}", kLimit));
  RecordProperty("measured", fmt::format("{:.9g}", apart));
  EXPECT_LE(apart, kLimit);
}

std::vector<TensorRow> tensors_of(const Config& config) {
  const std::vector<Stage> stages = model_stages(config);
  std::vector<TensorRow> rows;
  for (const auto& value : compared_values(stages)) rows.push_back({Pass::forward, value});
  for (const TensorSpec& spec : tensor_specs(config)) rows.push_back({Pass::backward, spec.name});
  for (const char* input : {"video_rows", "audio_rows", "text_rows"}) rows.push_back({Pass::backward, input});
  for (const auto& value : compared_values(stages)) {
    const bool has_gradient = !value.starts_with("rotary_") && value != "timestep_sinusoid";
    if (has_gradient && value != "video_output" && value != "audio_output")
      rows.push_back({Pass::backward, value});
  }
  return rows;
}

const auto kRowName = [](const auto& info) { return testing::PrintToString(info.param); };

INSTANTIATE_TEST_SUITE_P(fullmodel, ModelTensor, testing::ValuesIn(tensors_of(config_named("reduced"))),
                         kRowName);

// ---- the run as a whole ----

class ModelRun : public testing::TestWithParam<const char*> {};

TEST_P(ModelRun, closes) {
  const FullModelReport& report = examined().report;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const TensorResult* drift = report.first_drift(pass);
    EXPECT_EQ(drift, nullptr) << drift->name << ": " << drift->reason;
  }
  EXPECT_TRUE(report.missing().empty());
  EXPECT_TRUE(report.accepted());
}

TEST_P(ModelRun, compares_exactly_what_has_a_bound) {
  const std::vector<TensorRow> rows = tensors_of(reduced_model().config);
  EXPECT_EQ(examined().report.tensors.size(), rows.size());
  EXPECT_EQ(reduced_model().bounds.tensors.size(), rows.size());
}

TEST_P(ModelRun, binds_every_node_to_its_row) {
  // 3 tables, 4 of the entry, 2 x 14 of the refiner, 2 of the sequence, 4 x 17 of the blocks, 7 of the exit
  EXPECT_EQ(examined().report.nodes, 3 + 4 + 2 * 14 + 2 + 4 * 17 + 7);
  EXPECT_EQ(examined().report.nodes_bound_to_row, examined().report.nodes);
}

TEST_P(ModelRun, repeats_bitwise) {
  const FullModelReport again = reduced_model().examine(*cpu_execution(reduced_model().config));
  ASSERT_EQ(again.tensors.size(), examined().report.tensors.size());
  for (std::size_t i = 0; i < again.tensors.size(); ++i)
    EXPECT_EQ(again.tensors[i].xxh3_128, examined().report.tensors[i].xxh3_128) << again.tensors[i].name;
}

INSTANTIATE_TEST_SUITE_P(fullmodel, ModelRun, testing::Values("reduced_cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
