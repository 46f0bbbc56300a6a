// The model as stages: what they own, what they read, and that nothing is read before it is made.
#include "model/stages.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/execution/boundary_nodes.h"
#include "model/fingerprint.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

class Stages : public testing::TestWithParam<const char*> {
 protected:
  const Config config = config_named(GetParam());
  const std::vector<Stage> stages = model_stages(config);
};

TEST_P(Stages, own_every_parameter_of_the_fingerprint_exactly_once) {
  std::map<std::string, int> owners;
  for (const Stage& stage : stages)
    for (const Node& node : stage.graph.nodes)
      for (const auto& parameter : node.parameters) ++owners[parameter];
  for (const TensorSpec& spec : tensor_specs(config)) EXPECT_EQ(owners[spec.name], 1) << spec.name;
  EXPECT_EQ(std::int64_t(owners.size()), fingerprint(config).tensors);
}

TEST_P(Stages, read_only_what_is_given_or_made_before) {
  std::set<std::string> known = {"timesteps",     "positions",       "video_rows",   "audio_rows",
                                 "text_rows",     "adaln_indices",   "text_indices", "video_indices",
                                 "audio_indices", "timestep_indices"};
  for (const Stage& stage : stages) {
    ASSERT_EQ(stage.sources.size(), stage.graph.inputs.size()) << stage.graph.name;
    for (const auto& source : stage.sources)
      EXPECT_TRUE(known.contains(source)) << stage.graph.name << source;
    std::set<std::string> local(stage.graph.inputs.begin(), stage.graph.inputs.end());
    for (const Node& node : stage.graph.nodes) {
      for (const auto& input : node.inputs)
        EXPECT_TRUE(local.contains(input)) << node.name << " reads " << input;
      EXPECT_TRUE(local.insert(node.name).second) << node.name;
      EXPECT_TRUE(known.insert(stage.value(node.name)).second) << stage.value(node.name);
    }
  }
  for (const char* output : kModelOutputs) EXPECT_TRUE(known.contains(output));
}

TEST_P(Stages, have_the_nodes_of_the_fingerprint_and_the_boundaries) {
  std::int64_t inside = 0, boundary = 0;
  for (const Stage& stage : stages)
    for (const Node& node : stage.graph.nodes) {
      EXPECT_EQ(is_boundary(node), stage.prefix.empty()) << stage.value(node.name);
      (stage.prefix.empty() ? boundary : inside) += 1;
      EXPECT_FALSE(node.row.empty()) << node.name;
    }
  EXPECT_EQ(inside, fingerprint(config).nodes);
  EXPECT_EQ(boundary, 16);
}

INSTANTIATE_TEST_SUITE_P(fullmodel, Stages, testing::Values("released", "reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
