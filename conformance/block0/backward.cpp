// Gate block0, RFC row ws1_one_h3_block: the backward of block 0 at its real width, 31 gradients of a chained
// graph of 17 nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "conformance/block0/runs.h"
#include "harness/replay/replay_backward.h"

namespace h3 {
namespace {

ReplayRequest request_of(LayoutRow run) {
  ReplayRequest request;
  request.layout = run.layout;
  request.engine = run.engine;
  const bool tiny = request.layout == "tiny", cuda = request.engine == "cuda";
  request.golden = request.batch_rows = request.permute_rows = tiny;
  request.backward_passes = tiny ? (cuda ? 10 : 2) : (cuda ? 2 : 1);
  return request;
}

// One replay per layout and engine, shared by all claims about it.
const BackwardReport& replayed(LayoutRow run) {
  static std::map<std::string, BackwardReport> reports;
  const std::string key = testing::PrintToString(run);
  const auto found = reports.find(key);
  return found != reports.end() ? found->second
                                : reports.emplace(key, replay_backward(request_of(run))).first->second;
}

struct GradientRow {
  LayoutRow run;
  std::string value;
};
void PrintTo(const GradientRow& row, std::ostream* out) {
  std::string name = row.value.substr(row.value.starts_with("transformer_blocks.0.") ? 21 : 0);
  std::ranges::replace(name, '.', '_');
  PrintTo(row.run, out);
  *out << '_' << name;
}

class Gradient : public testing::TestWithParam<GradientRow> {
 protected:
  void SetUp() override {
    H3_NEEDS_ENGINE(GetParam().run.engine);
    result_ = &replayed(GetParam().run).gradient(GetParam().value);
    RecordProperty("layout", GetParam().run.layout);
    RecordProperty("gradient", GetParam().value);
    RecordProperty("rfc_row", result_->row);
    RecordProperty("xxh3_128", result_->xxh3_128);
    if (result_->golden) RecordProperty("relative_l2", fmt::format("{:.4e}", result_->golden->relative_l2));
  }
  const GradientResult* result_ = nullptr;
};

// Those that the provider repeats and whose sums have its order.
class PinnedGradient : public Gradient {};

TEST_P(PinnedGradient, equals_provider) {
  ASSERT_TRUE(result_->provider) << "no provider record for this layout: fixtures/block0_backward.h5";
  ASSERT_TRUE(result_->provider->bytes) << "the provider did not repeat this gradient";
  EXPECT_TRUE(result_->provider->bytes->equal) << result_->provider->bytes->first->to_string();
}

class BoundedGradient : public Gradient {};

TEST_P(BoundedGradient, stays_within_its_bound_of_the_golden) {
  ASSERT_TRUE(result_->golden && result_->golden->bound);
  RecordProperty("metric", "relative_l2");
  RecordProperty("limit", fmt::format("{:.9g}", *result_->golden->bound));
  RecordProperty("measured", fmt::format("{:.9g}", result_->golden->relative_l2));
  EXPECT_GT(result_->golden->relative_l2, 0) << "a BF16 result without any rounding error was not compared";
  EXPECT_TRUE(result_->golden->accepted) << result_->golden->reason;
}

class RepeatedGradient : public Gradient {};

TEST_P(RepeatedGradient, repeats_bitwise) {
  const int passes = replayed(GetParam().run).request.backward_passes;
  ASSERT_GT(passes, 1);
  EXPECT_EQ(result_->passes_differing, 0) << "of " << passes - 1 << " later passes";
}

struct NodeRow {
  LayoutRow run;
  std::string node;
};
void PrintTo(const NodeRow& row, std::ostream* out) {
  PrintTo(row.run, out);
  *out << '_' << row.node;
}

class NodeBackward : public testing::TestWithParam<NodeRow> {
 protected:
  void SetUp() override {
    H3_NEEDS_ENGINE(GetParam().run.engine);
    const auto& nodes = replayed(GetParam().run).nodes;
    const auto found = std::ranges::find(nodes, GetParam().node, &BackwardNode::node);
    ASSERT_NE(found, nodes.end()) << "the ledger has no node " << GetParam().node;
    result_ = &*found;
    RecordProperty("rfc_row", result_->row);
    RecordProperty("binding", name_of(result_->binding));
  }
  const BackwardNode* result_ = nullptr;
};

TEST_P(NodeBackward, is_computed_by_its_row) { EXPECT_EQ(result_->binding, Binding::row); }

TEST_P(NodeBackward, ignores_the_rows_around_a_row) {
  ASSERT_TRUE(replayed(GetParam().run).request.batch_rows);
  EXPECT_FALSE(result_->batch_drift) << result_->batch_drift->to_string();
}

class Backward : public testing::TestWithParam<LayoutRow> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
  const BackwardReport& report() { return replayed(GetParam()); }
};

TEST_P(Backward, has_a_complete_ledger_of_rows) {
  EXPECT_EQ(report().gradients.size(), 31u);
  EXPECT_EQ(report().nodes.size(), 17u);
  EXPECT_EQ(report().bindings().row, 17);
}

TEST_P(Backward, is_comparable_with_the_provider) {
  EXPECT_TRUE(report().provider_recorded) << report().provider;
}

TEST_P(Backward, is_accepted) {
  const auto why = [](const std::optional<Drift>& drift) { return drift ? drift->to_string() : "none"; };
  EXPECT_TRUE(report().accepted()) << "first_grad_golden_drift: " << why(report().first_golden_drift())
                                   << "\nfirst_grad_repeat_drift: " << why(report().first_repeat_drift())
                                   << "\nfirst_grad_batch_drift: " << why(report().first_batch_drift());
}

class PermutedBackward : public Backward {};

TEST_P(PermutedBackward, changes_no_row_and_no_sum_over_rows) {
  ASSERT_TRUE(report().permuted_rows_changed && report().permuted_leaves_changed);
  EXPECT_EQ(*report().permuted_rows_changed, 0) << "of " << report().rows << " rows";
  EXPECT_EQ(*report().permuted_leaves_changed, 0);
}

// ---- rows ----

const std::string kBlock = "transformer_blocks.0.";

std::vector<std::string> nodes() {
  std::vector<std::string> names;
  for (const auto& node : transformer_block(Config{}, 0).nodes) names.push_back(node.name);
  return names;
}

std::vector<std::string> leaves() {
  std::vector<std::string> names = {"hidden_states", "temb"};
  for (const auto& node : transformer_block(Config{}, 0).nodes)
    names.insert(names.end(), node.parameters.begin(), node.parameters.end());
  return names;
}

// All but the output's own, which is given.
std::vector<std::string> computed() {
  std::vector<std::string> names = nodes();
  std::erase(names, "residual_mlp");
  for (const auto& leaf : leaves()) names.push_back(leaf);
  return names;
}

// From the output down to keys and values; on the way of the queries and into the tables the provider adds
// with atomics, and its norms' weights sum over rows in another order. At tiny cuBLAS splits the sum of
// ffn_gate_up's dX: what comes of it is the strict row's own.
std::vector<std::string> pinned(const std::string& layout) {
  std::vector<std::string> names = {"residual_mlp",
                                    "ffn_down",
                                    "swiglu",
                                    "ffn_gate_up",
                                    kBlock + "ff.net.2.weight",
                                    kBlock + "ff.net.0.proj.weight"};
  if (layout == "tiny") return names;
  for (const char* node :
       {"norm2", "residual_attn", "o_proj", "attention", "v_proj", "rope_k", "k_norm", "k_proj"})
    names.push_back(node);
  for (const char* weight : {"attn.to_out.0.weight", "attn.to_v.weight", "attn.to_k.weight"})
    names.push_back(kBlock + weight);
  return names;
}

std::vector<GradientRow> pinned_of(std::span<const LayoutRow> runs) {
  std::vector<GradientRow> rows;
  for (const auto& run : runs)
    for (const auto& value : pinned(run.layout)) rows.push_back({run, value});
  return rows;
}

std::vector<GradientRow> rows_of(std::span<const LayoutRow> runs, const std::vector<std::string>& values) {
  std::vector<GradientRow> rows;
  for (const auto& run : runs)
    for (const auto& value : values) rows.push_back({run, value});
  return rows;
}

std::vector<NodeRow> nodes_of(LayoutRow run) {
  std::vector<NodeRow> rows;
  for (const auto& node : nodes()) rows.push_back({run, node});
  return rows;
}

#define H3_BACKWARD_CLAIMS(gate, layouts, repeated)                                                        \
  INSTANTIATE_TEST_SUITE_P(gate, PinnedGradient, testing::ValuesIn(pinned_of(layouts)), kRowName);         \
  INSTANTIATE_TEST_SUITE_P(gate, BoundedGradient,                                                          \
                           testing::ValuesIn(rows_of(std::span(layouts).first(1), computed())), kRowName); \
  INSTANTIATE_TEST_SUITE_P(gate, RepeatedGradient, testing::ValuesIn(rows_of(repeated, computed())),       \
                           kRowName);                                                                      \
  INSTANTIATE_TEST_SUITE_P(gate, NodeBackward, testing::ValuesIn(nodes_of(layouts[0])), kRowName);         \
  INSTANTIATE_TEST_SUITE_P(gate, Backward, testing::ValuesIn(layouts), kRowName);                          \
  INSTANTIATE_TEST_SUITE_P(gate, PermutedBackward, testing::Values(layouts[0]), kRowName)

constexpr LayoutRow kLayouts[] = {{"tiny", "cpu"}, {"small", "cpu"}};
H3_BACKWARD_CLAIMS(block0, kLayouts, std::span(kLayouts).first(1));

#ifdef H3_HAVE_CUDA
constexpr LayoutRow kCudaLayouts[] = {{"tiny", "cuda"}, {"small", "cuda"}, {"medium", "cuda"}};
H3_BACKWARD_CLAIMS(block0_cuda, kCudaLayouts, kCudaLayouts);

// The twin on this machine's CPU, without its own checks.
const BackwardReport& twin() {
  static const BackwardReport report = [] {
    ReplayRequest request;
    request.golden = request.batch_rows = false;
    return replay_backward(request);
  }();
  return report;
}

class TwinGradient : public Gradient {};

TEST_P(TwinGradient, equals_the_twin) {
  EXPECT_EQ(result_->sha256, twin().gradient(GetParam().value).sha256);
}

INSTANTIATE_TEST_SUITE_P(block0_cuda, TwinGradient,
                         testing::ValuesIn(rows_of(std::span(kCudaLayouts).first(1), computed())), kRowName);
#endif

}  // namespace
}  // namespace h3
