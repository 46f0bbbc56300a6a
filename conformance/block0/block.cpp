// Gate block0, RFC row ws1_one_h3_block: block 0 at its real width as a chained graph of 17 nodes.
#include <gtest/gtest.h>

#include <map>
#include <span>

#include "conformance/block0/runs.h"
#include "harness/replay/replay.h"

namespace h3 {
namespace {

// One replay per layout and engine, shared by all claims about it: the run is long, the claims are not.
const ReplayReport& replayed(LayoutRow run) {
  const std::string key = testing::PrintToString(run);
  static std::map<std::string, ReplayReport> reports;
  const auto found = reports.find(key);
  if (found != reports.end()) return found->second;
  ReplayRequest request;
  request.layout = run.layout;
  request.engine = run.engine;
  request.repeat = request.permute_rows = request.layout == "tiny";
  return reports.emplace(key, replay_block(request)).first->second;
}

struct NodeRow {
  LayoutRow run;
  std::string node;
};
void PrintTo(const NodeRow& row, std::ostream* out) {
  *out << row.run.layout << '_' << row.run.engine << '_' << row.node;
}

class BlockNode : public testing::TestWithParam<NodeRow> {
 protected:
  void SetUp() override {
    H3_NEEDS_ENGINE(GetParam().run.engine);
    const ReplayReport& report = replayed(GetParam().run);
    for (const auto& node : report.nodes)
      if (node.node == GetParam().node) result_ = &node;
    ASSERT_NE(result_, nullptr) << "the ledger has no node " << GetParam().node;
    RecordProperty("layout", GetParam().run.layout);
    RecordProperty("node", result_->node);
    RecordProperty("rfc_row", result_->row);
    RecordProperty("binding", name_of(result_->binding));
    RecordProperty("xxh3_128", result_->xxh3_128);
    RecordProperty("relative_l2", fmt::format("{:.4e}", result_->golden->relative_l2));
  }
  const NodeResult* result_ = nullptr;
};

TEST_P(BlockNode, is_computed_by_its_row) { EXPECT_EQ(result_->binding, Binding::row); }

TEST_P(BlockNode, equals_provider) {
  ASSERT_TRUE(result_->provider) << "no provider record for this layout: fixtures/block0.h5";
  EXPECT_TRUE(result_->provider->equal) << result_->provider->first->to_string();
}

TEST_P(BlockNode, stays_within_its_bound_of_the_golden) {
  ASSERT_TRUE(result_->golden && result_->golden->bound);
  RecordProperty("metric", "relative_l2");
  RecordProperty("limit", fmt::format("{:.9g}", *result_->golden->bound));
  RecordProperty("measured", fmt::format("{:.9g}", result_->golden->relative_l2));
  EXPECT_GT(result_->golden->relative_l2, 0) << "a BF16 result without any rounding error was not compared";
  EXPECT_LE(result_->golden->relative_l2, *result_->golden->bound);
}

TEST_P(BlockNode, ignores_the_rows_around_a_row) {
  EXPECT_FALSE(result_->batch_drift) << result_->batch_drift->to_string();
}

// The larger layouts run once: their bytes are pinned by the provider's record.
class RepeatedNode : public BlockNode {};

TEST_P(RepeatedNode, repeats_bitwise) {
  EXPECT_FALSE(result_->repeat_drift) << result_->repeat_drift->to_string();
}

class Block : public testing::TestWithParam<LayoutRow> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
  const ReplayReport& report() { return replayed(GetParam()); }
};

TEST_P(Block, has_a_complete_ledger_of_rows) {
  ASSERT_EQ(report().nodes.size(), 17u);
  EXPECT_EQ(report().bindings().row, 17);
}

TEST_P(Block, has_no_first_drift) {
  ASSERT_TRUE(report().provider_recorded) << report().provider;
  EXPECT_FALSE(report().first_drift()) << report().first_drift()->to_string();
  EXPECT_FALSE(report().first_isolated_drift()) << report().first_isolated_drift()->to_string();
}

TEST_P(Block, starts_from_the_provider_boundaries) {
  ASSERT_EQ(report().boundaries.size(), 4u);
  for (const auto& boundary : report().boundaries) {
    ASSERT_TRUE(boundary.equals_provider) << boundary.name;
    EXPECT_TRUE(*boundary.equals_provider) << boundary.name;
  }
}

class PermutedBlock : public Block {};

TEST_P(PermutedBlock, changes_no_row) {
  ASSERT_TRUE(report().permuted_rows_changed);
  EXPECT_EQ(*report().permuted_rows_changed, 0) << "of " << report().rows << " rows";
}

constexpr LayoutRow kLayouts[] = {{"tiny", "cpu"}, {"small", "cpu"}, {"medium", "cpu"}};

std::vector<NodeRow> nodes_of(std::span<const LayoutRow> runs) {
  std::vector<NodeRow> rows;
  for (const auto& run : runs)
    for (const auto& node : transformer_block(Config{}, 0).nodes) rows.push_back({run, node.name});
  return rows;
}

#define H3_BLOCK_CLAIMS(gate, layouts)                                                                   \
  INSTANTIATE_TEST_SUITE_P(gate, BlockNode, testing::ValuesIn(nodes_of(layouts)), kRowName);             \
  INSTANTIATE_TEST_SUITE_P(gate, RepeatedNode, testing::ValuesIn(nodes_of(std::span(layouts).first(1))), \
                           kRowName);                                                                    \
  INSTANTIATE_TEST_SUITE_P(gate, Block, testing::ValuesIn(layouts), kRowName);                           \
  INSTANTIATE_TEST_SUITE_P(gate, PermutedBlock, testing::Values(layouts[0]), kRowName)

H3_BLOCK_CLAIMS(block0, kLayouts);

#ifdef H3_HAVE_CUDA
constexpr LayoutRow kCudaLayouts[] = {{"tiny", "cuda"}, {"small", "cuda"}, {"medium", "cuda"}};
H3_BLOCK_CLAIMS(block0_cuda, kCudaLayouts);
#endif

}  // namespace
}  // namespace h3
