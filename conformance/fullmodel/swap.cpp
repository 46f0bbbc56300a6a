// Single nodes handed to another execution: they have the other's values in every graph with that node, and
// nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/errors.h"
#include "conformance/fullmodel/reduced.h"
#include "harness/execution/swapped_nodes.h"

namespace h3 {
namespace {

struct SwapRow {
  const char* node;
  double limit;  // of the node's isolated error, where it is compared and its stage's inputs are its own
};
void PrintTo(const SwapRow& row, std::ostream* out) { *out << row.node; }

class SwapByGolden : public testing::TestWithParam<SwapRow> {};

TEST_P(SwapByGolden, has_the_goldens_value_and_does_not_close) {
  const auto& [node, limit] = GetParam();
  const Config& config = reduced_model().config;
  const auto swapped = swap_nodes(cpu_execution(config), {"golden", {node}}, config);
  const FullModelReport report = reduced_model().examine(*swapped, {}, {node});

  std::int64_t nodes = 0;
  for (const Stage& stage : model_stages(config))
    nodes += std::ranges::count(stage.graph.nodes, node, &Node::name);
  EXPECT_EQ(report.forward_bindings.nodes - report.forward_bindings.row, nodes);
  EXPECT_FALSE(report.accepted());
  ASSERT_EQ(swapped->swapped().size(), 1u);
  EXPECT_EQ(swapped->swapped()[0].runs, 2 * nodes) << "forward, and again for the backward";
  EXPECT_GT(swapped->swapped()[0].differing, 0);
  if (limit >= 0) {
    EXPECT_LE(report.tensor(Pass::forward, node).isolated.relative_l2, limit);
  }
}

const SwapRow kSwaps[] = {
    {"timestep_mlp", 0},  // FP32 as the golden's
    {"video_in_proj", 0}, {"audio_in_proj", 0}, {"q_norm", -1}, {"attention", -1},
};
INSTANTIATE_TEST_SUITE_P(fullmodel, SwapByGolden, testing::ValuesIn(kSwaps),
                         [](const auto& info) { return testing::PrintToString(info.param); });

class Swap : public testing::TestWithParam<const char*> {
 protected:
  const Config& config = reduced_model().config;
  auto swap(const NodeSwap& swap) const { return swap_nodes(cpu_execution(config), swap, config); }
};

TEST_P(Swap, by_the_same_rows_changes_nothing) {
  const SwappedNodes same(cpu_execution(config), cpu_execution(config), {"attention", "norm_out", "swiglu"});
  const FullModelReport report = reduced_model().examine(same);
  EXPECT_TRUE(report.accepted());
  ASSERT_EQ(same.swapped().size(), 3u);
  for (const SwappedNode& node : same.swapped()) {
    EXPECT_GT(node.elements, 0) << node.node;
    EXPECT_EQ(node.differing, 0) << node.node;
  }
}

TEST_P(Swap, of_a_node_that_the_model_does_not_have_is_an_error) {
  EXPECT_TRUE(fails_naming(
      [&] {
        swap({"golden", {"qproj"}});
      },
      {"golden nodes: no node 'qproj'", "q_proj"}));
}

TEST_P(Swap, by_the_provider_needs_the_released_widths) {
  EXPECT_TRUE(fails_naming([&] { swap({"provider", {"q_proj"}}); }, {"provider nodes", "--config released"}));
}

TEST_P(Swap, that_was_not_asked_for_is_an_error) {
  const auto swapped = swap({"golden", {"norm_out"}});
  EXPECT_TRUE(fails_naming([&] { reduced_model().examine(*swapped); }, {"norm_out", "expected row"}));
}

INSTANTIATE_TEST_SUITE_P(fullmodel, Swap, testing::Values("reduced_cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
