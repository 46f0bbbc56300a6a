#include "harness/parallel/parallel_plan.h"

#include <algorithm>
#include <numeric>

namespace h3 {
namespace {

constexpr Layout kRows = rows_by(Kind::rows), kHeads = columns_by(Kind::heads);

struct Projection {
  Kind in, out;
};

bool is_projection(const Node& node) { return node.inputs.size() == 1 && node.row.ends_with("_gemm"); }

Projection kinds_of(const Node& node) {
  if (node.name == "o_proj") return {Kind::heads, Kind::hidden_channels};
  if (node.name == "ffn_gate_up") return {Kind::hidden_channels, Kind::ffn_channels};
  if (node.name == "ffn_down") return {Kind::ffn_channels, Kind::hidden_channels};
  return {Kind::hidden_channels, Kind::heads};
}

// `by_weights`: plan `tensor`.
NodePlan plan_of(const Node& node, bool by_weights, bool attention_by_rows) {
  const auto all = [&](Layout layout) { return std::vector<Layout>(node.inputs.size(), layout); };
  const std::vector<Layout> whole_parameters(node.parameters.size(), kWhole);
  const Layout heads_or_rows = by_weights ? kHeads : kRows;

  if (node.name == "adaln_projection") {
    const NodePlan::Pass backward = {
        {columns_by(Kind::time_channels)}, {columns_by(Kind::time_channels), kWhole}, kWhole};
    if (!by_weights) return {{{kWhole}, whole_parameters, kWhole}, backward};
    const Layout outputs = rows_by(Kind::table_channels);
    return {{{kWhole}, {outputs, outputs}, columns_by(Kind::table_channels)}, backward};
  }
  if (is_projection(node)) {
    const auto [in, out] = kinds_of(node);
    const NodePlan::Pass backward = {{columns_by(in)}, {columns_by(in)}, kWhole};
    if (by_weights) return {{{kWhole}, {rows_by(out)}, columns_by(out)}, backward};
    return {{{kRows}, {kWhole}, kRows}, backward};
  }
  if (node.row == "h3_rmsnorm")
    return {{{kRows, kWhole, kRows}, whole_parameters, kRows}, {all(kWhole), whole_parameters, kWhole}};
  if (node.row == "adaln_gate_residual")
    return {{{kRows, kRows, kWhole, kRows}, {}, kRows}, {all(kWhole), {}, kWhole}};
  if (node.row == "h3_qk_rmsnorm_d128")
    return {{all(heads_or_rows), whole_parameters, heads_or_rows}, {all(kWhole), whole_parameters, kWhole}};
  if (node.row == "h3_mm_rope_3axis_partial") {
    const Layout tables = by_weights ? kWhole : kRows;
    const NodePlan::Pass pass = {{heads_or_rows, tables, tables}, {}, heads_or_rows};
    return {pass, pass};
  }
  if (node.row == "h3_full_attention") {
    const NodePlan::Pass by_heads = {all(kHeads), {}, kHeads};
    if (!attention_by_rows) return {by_heads, by_heads};
    return {{{kRows, kWhole, kWhole}, {}, kRows}, by_heads};
  }
  if (node.row == "h3_swiglu") {
    const Layout layout = by_weights ? columns_by(Kind::ffn_channels) : kRows;
    const NodePlan::Pass pass = {{layout}, {}, layout};
    return {pass, pass};
  }
  fail("plan: node '{}' has no place among ranks", node.name);
}

}  // namespace

void Plan::require_comparable(int ranks) const {
  if (!summed_by_a_collective.empty())
    fail(
        "not comparable with one rank: node {} adds the sums of {} ranks, expected one chain over all its "
        "inputs",
        summed_by_a_collective.front(), ranks);
  for (std::size_t rank = 0; rank < key_blocks.size(); ++rank) {
    std::vector<int> sorted = key_blocks[rank], expected(static_cast<std::size_t>(ranks));
    std::ranges::sort(sorted);
    std::iota(expected.begin(), expected.end(), 0);
    if (sorted != expected)
      fail("not comparable with one rank: rank {} takes the key blocks {}, expected each of {} once", rank,
           fmt::join(key_blocks[rank], " "), ranks);
  }
}

std::vector<std::string> plan_names() { return {"tensor", "sequence", "context"}; }

Plan plan_named(const std::string& name, const Graph& block, int ranks) {
  const auto names = plan_names();
  require(std::ranges::count(names, name) > 0, "plan '{}': expected {}", name, fmt::join(names, ", "));
  Plan plan;
  plan.name = name;
  plan.homes = {{"hidden_states", kRows},
                {"temb", kWhole},
                {"adaln_indices", kRows},
                {"rotary_cos", kRows},
                {"rotary_sin", kRows}};
  for (const Node& node : block.nodes) {
    const NodePlan made = plan_of(node, name == "tensor", name == "context");
    // The table is read by every row: it is gathered where it is made.
    plan.homes[node.name] = node.name == "adaln_projection" ? kWhole : made.forward.output;
    for (std::size_t i = 0; i < node.parameters.size(); ++i)
      plan.homes[node.parameters[i]] = made.forward.parameters[i];
    plan.nodes[node.name] = made;
  }
  if (name == "context") {
    plan.key_blocks.assign(std::size_t(ranks), std::vector<int>(std::size_t(ranks)));
    for (auto& order : plan.key_blocks) std::iota(order.begin(), order.end(), 0);
  }
  return plan;
}

}  // namespace h3
