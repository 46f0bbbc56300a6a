#include "harness/parallel/parallel_report.h"

#include <algorithm>

#include "model/named_configs.h"

namespace h3 {
namespace {

std::string megabytes(double bytes) { return bytes == 0 ? "-" : fmt::format("{:.3f}", bytes / 1e6); }

bool is_projection(const Node& node) { return node.row.ends_with("_gemm"); }

}  // namespace

nlohmann::json to_json(const RankReport& report) {
  nlohmann::json values = nlohmann::json::array(), traffic = nlohmann::json::array();
  for (const RankValue& value : report.values) {
    nlohmann::json json = {{"value", value.value},
                           {"gradient", value.gradient},
                           {"elements", value.elements},
                           {"differing", value.differing}};
    if (const auto& first = value.first)
      json["first"] = {first->node, first->row, first->head, first->element, first->detail};
    values.push_back(json);
  }
  for (const Traffic::Entry& entry : report.traffic.received)
    traffic.push_back({{"node", entry.node}, {"bytes", entry.bytes}, {"seconds", entry.seconds}});
  return {{"rank", report.rank}, {"values", values}, {"traffic", traffic}};
}

RankReport rank_report_of(const nlohmann::json& json) {
  RankReport report;
  report.rank = json.at("rank");
  for (const auto& entry : json.at("values")) {
    RankValue value{entry.at("value"), entry.at("gradient"), entry.at("elements"), entry.at("differing"), {}};
    if (const auto first = entry.find("first"); first != entry.end())
      value.first = Drift{first->at(0), first->at(1), first->at(2), first->at(3), first->at(4)};
    report.values.push_back(value);
  }
  for (const auto& entry : json.at("traffic"))
    report.traffic.received.push_back({entry.at("node"), entry.at("bytes"), entry.at("seconds")});
  return report;
}

std::int64_t usual_bytes(const std::string& plan, const std::string& node, const Graph& block,
                         std::int64_t rows, std::int64_t timesteps, const Config& config, int ranks) {
  const std::string suffix = " backward";
  const bool backward = node.ends_with(suffix);
  const std::string name = node.substr(0, node.size() - (backward ? suffix.size() : 0));
  const auto found = std::ranges::find(block.nodes, name, &Node::name);
  if (found == block.nodes.end()) return 0;
  // A rank's part of what is gathered, or scattered as sums, on a ring.
  const auto moved = [&](std::int64_t elements) { return 2 * elements / ranks * (ranks - 1); };
  const std::int64_t stream = moved(rows * config.hidden_size);
  if (plan == "tensor") {
    if (name == "adaln_projection") return backward ? 0 : moved(timesteps * kTags * found->cols);
    const bool gathers = name == "q_proj" || name == "ffn_gate_up",
               scatters = name == "o_proj" || name == "ffn_down";
    // Backward, what gathered scatters, and gathers its input once more for dW.
    return gathers ? (backward ? 2 : 1) * stream : scatters ? stream : 0;
  }
  if (name == "attention") {  // q, k and v in; with the backward o, dO, dq, dk and dv
    const std::int64_t heads = moved(rows * config.inner_dim()) / ranks;
    return backward ? 4 * heads : 3 * heads;
  }
  if (name == "o_proj" && !backward) return moved(rows * config.inner_dim()) / ranks;
  if (!backward) return 0;
  // Weight gradients are all-reduced: scattered as sums, then gathered.
  const std::int64_t hidden = config.hidden_size, inner = config.inner_dim();
  if (name == "adaln_projection") return 2 * moved(kTags * found->cols * config.time_embed_dim);
  if (!is_projection(*found)) return 0;
  const std::int64_t inputs = name == "o_proj" ? inner : name == "ffn_down" ? config.ffn_dim : hidden;
  return 2 * moved(found->cols * inputs);
}

std::string to_table(const ParallelRequest& request, const std::string& how,
                     std::span<const RankReport> reports) {
  const Config config = config_named(request.config);
  const std::int64_t rows = named_layout(request.layout).rows();
  std::string text =
      fmt::format("{}  config {}  layout {} (S = {})  engine {}\nplan      {}, {} {} ({})\n\n",
                  transformer_block(config, request.block).name, request.config, request.layout, rows,
                  request.engine, request.plan, request.ranks, request.ranks == 1 ? "rank" : "ranks", how);
  text += fmt::format("{:>4}  {:>6}  {:>5}  {:>6}  {:>14}  {:>9}  {:>12}\n", "rank", "rows", "heads",
                      "values", "elements", "differing", "received MB");
  const Ownership ownership(config, rows, request.ranks);
  for (const RankReport& report : reports) {
    std::int64_t elements = 0, differing = 0;
    for (const RankValue& value : report.values) elements += value.elements, differing += value.differing;
    text +=
        fmt::format("{:>4}  {:>6}  {:>5}  {:>6}  {:>14}  {:>9}  {:>12}\n", report.rank,
                    ownership.of(Kind::rows, report.rank).count, ownership.of(Kind::heads, report.rank).count,
                    report.values.size(), elements, differing, megabytes(double(report.traffic.total())));
  }
  const auto drift = first_drift(reports);
  return text + fmt::format("\nfirst_drift  {}\nverdict      {}\n", drift ? drift->to_string() : "none",
                            drift ? "not the bytes of one rank" : "byte-equal to one rank");
}

std::string traffic_table(const ParallelRequest& request, std::span<const RankReport> reports) {
  const Config config = config_named(request.config);
  const Graph block = transformer_block(config, request.block);
  const PackedLayout layout = named_layout(request.layout);
  std::string text = fmt::format("{:<28}  {:>12}  {:>12}  {:>8}\n", "node", "received MB", "usual MB", "ms");
  struct Sum {
    double bytes = 0, usual = 0, seconds = 0;
  };
  Sum forward, backward;
  const auto line = [&](const std::string& node, const Sum& sum) {
    text += fmt::format("{:<28}  {:>12}  {:>12}  {:>8.2f}\n", node, megabytes(sum.bytes),
                        megabytes(sum.usual), 1e3 * sum.seconds);
  };
  for (const Traffic::Entry& entry : reports.front().traffic.received) {
    Sum node;
    for (const RankReport& report : reports) {
      node.bytes += double(report.traffic.of(entry.node)) / double(reports.size());
      for (const Traffic::Entry& other : report.traffic.received)
        if (other.node == entry.node) node.seconds = std::max(node.seconds, other.seconds);
    }
    node.usual = double(usual_bytes(request.plan, entry.node, block, layout.rows(),
                                    std::int64_t(layout.timesteps.size()), config, request.ranks));
    line(entry.node, node);
    Sum& pass = entry.node.ends_with(" backward") ? backward : forward;
    pass.bytes += node.bytes, pass.usual += node.usual, pass.seconds += node.seconds;
  }
  line("all forward", forward);
  line("all backward", backward);
  return text;
}

}  // namespace h3
