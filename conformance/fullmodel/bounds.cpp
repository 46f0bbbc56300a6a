// Where the bounds come from: the ensemble rule on small ensembles, and files that are not as recorded.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "conformance/errors.h"
#include "conformance/scratch.h"
#include "fixtures/path.h"
#include "harness/full_model/full_model_bounds.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/fingerprint.h"
#include "model/json.h"
#include "model/named_configs.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

Ensemble ensemble_of(std::vector<std::vector<double>> errors) {
  Ensemble ensemble;
  for (std::size_t m = 0; m < errors[0].size(); ++m) ensemble.members.push_back(fmt::format("member{}", m));
  for (std::size_t t = 0; t < errors.size(); ++t) {
    EnsembleTensor tensor{Pass::forward, fmt::format("t{}", t), DType::fp32, 1, 0, {}};
    for (const double error : errors[t]) tensor.errors.push_back({.chained = error, .isolated = 2 * error});
    ensemble.tensors.push_back(tensor);
  }
  return ensemble;
}

struct RuleRow {
  const char* name;
  std::vector<std::vector<double>> errors;  // by tensor, by member
  double k;
  const char* decided_by;  // the tensor, by the member that needs most
};
void PrintTo(const RuleRow& row, std::ostream* out) { *out << row.name; }

const RuleRow kRules[] = {
    {"equal_members_need_one", {{0.01, 0.01}}, 1.0, "forward t0"},
    {"the_outlier_decides", {{0.01, 0.01, 0.01}, {0.01, 0.01, 0.026}}, 2.6, "forward t1"},
    {"against_the_largest_of_the_others", {{0.01, 0.02, 0.05}}, 2.5, "forward t0"},
    {"rounded_up_to_a_tenth", {{0.01, 0.0201}}, 2.1, "forward t0"},
};

class EnsembleRuleOf : public testing::TestWithParam<RuleRow> {};

TEST_P(EnsembleRuleOf, is_the_smallest_factor_that_passes_every_member_held_out) {
  const Ensemble ensemble = ensemble_of(GetParam().errors);
  const EnsembleRule rule = rule_of(ensemble, Measure::chained);
  EXPECT_DOUBLE_EQ(rule.k, GetParam().k);
  const auto worst = std::ranges::max_element(rule.held_out) - rule.held_out.begin();
  EXPECT_EQ(rule.tensor[std::size_t(worst)], GetParam().decided_by);
  bool passes = true, smaller_passes = true;  // k, and a tenth less
  for (const auto& tensor : ensemble.tensors)
    for (std::size_t m = 0; m < ensemble.members.size(); ++m) {
      double others = 0;
      for (std::size_t j = 0; j < ensemble.members.size(); ++j)
        if (j != m) others = std::max(others, tensor.errors[j].chained);
      const double floor = rounding_floor(tensor.dtype), own = tensor.errors[m].chained;
      passes &= own <= rule.k * others + floor;
      smaller_passes &= own <= (rule.k - 0.1) * others + floor;
    }
  EXPECT_TRUE(passes);
  EXPECT_FALSE(smaller_passes);
}

INSTANTIATE_TEST_SUITE_P(fullmodel, EnsembleRuleOf, testing::ValuesIn(kRules),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// A folder of fixtures that can be spoiled.
class SpoiledFixtures {
 public:
  SpoiledFixtures() {
    std::filesystem::create_directory(root_.path("fixtures"));
    for (const auto& name :
         {ensemble_file("reduced", "tiny"), bounds_file("reduced", "tiny"), std::string("manifest.json")})
      std::filesystem::copy_file(fixture_path(name), path(name));
    if (const char* before = std::getenv("H3_ROOT")) before_ = before;
    ::setenv("H3_ROOT", root_.folder().c_str(), 1);
  }
  ~SpoiledFixtures() { before_.empty() ? ::unsetenv("H3_ROOT") : ::setenv("H3_ROOT", before_.c_str(), 1); }

  template <class Change>
  void change(const std::string& name, const Change& spoil, bool in_manifest) const {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(read_json(path(name)).dump());
    spoil(json);
    write_file(path(name), json.dump(1) + "\n");
    if (!in_manifest) return;
    auto manifest = read_json(path("manifest.json"));
    manifest["files"][name]["sha256"] = digest_file(path(name)).sha256;
    write_file(path("manifest.json"), manifest.dump(2));
  }

 private:
  std::string path(const std::string& name) const { return root_.path("fixtures/" + name); }

  Scratch root_;
  std::string before_;
};

struct SpoiledRow {
  const char* name;
  bool of_bounds;  // else of the ensemble
  bool in_manifest;
  void (*spoil)(nlohmann::ordered_json& json);
  const char *file, *what;  // that the error names
};
void PrintTo(const SpoiledRow& row, std::ostream* out) { *out << row.name; }

const SpoiledRow kSpoiled[] = {
    {"a_bound_raised", true, false, [](auto& j) { j["tensors"][0]["isolated"] = 0.9; },
     "full_model_reduced_tiny_bounds.json", "SHA-256"},
    {"a_bound_raised_and_the_manifest_too", true, true, [](auto& j) { j["tensors"][0]["isolated"] = 0.9; },
     "full_model_reduced_tiny_bounds.json", "does not follow"},
    {"a_member_changed", false, false, [](auto& j) { j["tensors"][0]["norm"] = 2.0; },
     "full_model_reduced_tiny.json", "SHA-256"},
    {"a_member_changed_and_the_manifest_too", false, true, [](auto& j) { j["tensors"][0]["norm"] = 2.0; },
     "full_model_reduced_tiny_bounds.json", "ensemble"},
    {"another_layout", true, true, [](auto& j) { j["inventory"]["layout"] = "00"; },
     "full_model_reduced_tiny_bounds.json", "layout"},
    {"other_inputs", true, true, [](auto& j) { j["inventory"]["input.video_rows"] = "00"; },
     "full_model_reduced_tiny_bounds.json", "input.video_rows"},
    {"one_member_only", false, true, [](auto& j) { j["members"] = {"default"}; },
     "full_model_reduced_tiny.json", "two or more"},
};

class SpoiledBounds : public testing::TestWithParam<SpoiledRow> {};

TEST_P(SpoiledBounds, are_an_error_that_names_them) {
  const SpoiledFixtures fixtures;
  const SpoiledRow& row = GetParam();
  EXPECT_EQ(error_of([] { load_bounds("reduced"); }), "");
  fixtures.change(row.of_bounds ? bounds_file("reduced", "tiny") : ensemble_file("reduced", "tiny"),
                  row.spoil, row.in_manifest);
  EXPECT_TRUE(fails_naming([] { load_bounds("reduced"); }, {row.file, row.what}));
}

INSTANTIATE_TEST_SUITE_P(fullmodel, SpoiledBounds, testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return testing::PrintToString(info.param); });

class FrozenBounds : public testing::TestWithParam<const char*> {};

TEST_P(FrozenBounds, need_an_error_of_more_than_one_member) {
  const Ensemble lonely = ensemble_of({{0, 0.5}});
  EXPECT_TRUE(fails_naming([&] { rule_of(lonely, Measure::isolated); }, {"only member member1"}));
}

INSTANTIATE_TEST_SUITE_P(fullmodel, FrozenBounds, testing::Values("lonely"),
                         [](const auto& info) { return std::string(info.param); });

struct RecordedRow {
  const char *config, *layout;
};
void PrintTo(const RecordedRow& row, std::ostream* out) { *out << row.config << '_' << row.layout; }

class ModelBounds : public testing::TestWithParam<RecordedRow> {
 protected:
  const FullModelBounds bounds = load_bounds(GetParam().config, GetParam().layout);
};

TEST_P(ModelBounds, follow_from_the_recorded_ensemble) {
  EXPECT_EQ(bounds.tensors.size(), load_ensemble(GetParam().config, GetParam().layout).tensors.size());
}

// Zeros and a doubled tensor are 1 away from the golden. Only where attention is hot are bytes needed
// instead.
TEST_P(ModelBounds, accept_no_tensor_of_zeros) {
  const std::int64_t hot = hot_block(config_named(GetParam().config));
  for (const auto& bound : bounds.tensors) {
    const bool of_hot_attention = bound.pass == Pass::backward &&
                                  (bound.name.starts_with(fmt::format("transformer_blocks.{}.", hot)) ||
                                   bound.name == fmt::format("transformer_blocks.{}.residual_mlp", hot - 1));
    EXPECT_TRUE(!bound.isolated_is_blind() || of_hot_attention) << bound.name;
  }
}

// Values pass: only gradients are chained too far from the golden for a bound to say anything.
TEST_P(ModelBounds, are_not_blind_forward) {
  for (const auto& bound : bounds.tensors)
    EXPECT_FALSE(bound.pass == Pass::forward && bound.chained_is_blind()) << bound.name;
}

TEST_P(ModelBounds, hold_for_every_gradient_of_a_parameter) {
  const auto parameters = tensor_specs(config_named(GetParam().config));
  for (const TensorSpec& spec : parameters)
    EXPECT_NO_THROW(bounds.of(Pass::backward, spec.name)) << spec.name;
}

INSTANTIATE_TEST_SUITE_P(fullmodel, ModelBounds,
                         testing::Values(RecordedRow{"reduced", "tiny"}, RecordedRow{"released", "tiny"},
                                         RecordedRow{"released", "small"}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
