#include "harness/report.h"

#include <fmt/format.h>

#include <cmath>

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const std::optional<Drift>& drift) {
  if (!drift) return nullptr;
  return {{"node", drift->node},
          {"row", drift->row},
          {"head", drift->head},
          {"element", drift->element},
          {"detail", drift->detail}};
}

std::string or_none(const std::optional<Drift>& drift) { return drift ? drift->to_string() : "none"; }

std::string provider_cell(const NodeResult& node) {
  if (!node.provider) return "no record";
  if (node.provider->equal) return "= provider";
  return fmt::format("{} of {} rows differ, {} of {} sampled elements", node.provider->rows_differing,
                     node.shape[0], node.provider->elements_differing, node.provider->sampled_elements);
}

}  // namespace

std::string to_table(const ReplayReport& report, bool colour) {
  const auto paint = [&](bool good, const std::string& text) {
    return colour ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, text) : text;
  };
  std::string out = fmt::format("{}  layout {} (S = {})  engine {} ({})\nweights   {}\nprovider  {}\n\n",
                                report.graph, report.request.layout, report.rows, report.request.engine,
                                report.chain_isa, report.weights, report.provider);
  out += fmt::format("{:<17} {:<24} {:<10} {:>11} {:>11} {:>10} {:>7}  {:<18} {}\n", "node", "RFC row",
                     "binding", "error", "bound", "max abs", "s", "digest (xxh3)", "provider");
  for (const auto& node : report.nodes) {
    const bool equal = node.provider && node.provider->equal;
    out += fmt::format(
        "{:<17} {:<24} {:<10} {:>11} {:>11} {:>10} {:>7.2f}  {:<18} {}\n", node.node, node.row,
        name_of(node.binding), node.golden ? fmt::format("{:.3e}", node.golden->relative_l2) : "-",
        node.golden && node.golden->bound ? fmt::format("{:.3e}", *node.golden->bound) : "-",
        node.golden ? fmt::format("{:.2e}", node.golden->max_abs) : "-", node.seconds,
        node.xxh3_128.substr(0, 16), node.provider ? paint(equal, provider_cell(node)) : "no record");
  }
  out += "\nboundaries ";
  for (const auto& boundary : report.boundaries)
    out += fmt::format(
        " {} {}", boundary.name,
        !boundary.equals_provider
            ? "(no record)"
            : paint(*boundary.equals_provider, *boundary.equals_provider ? "= provider;" : "DIFFERS;"));
  out +=
      fmt::format("\nbindings              {} of {} row\n", report.nodes_bound_to_row(), report.nodes.size());
  const auto line = [&](const char* name, const std::optional<Drift>& drift, bool checked,
                        const char* why_not) {
    out += fmt::format("{:<22}{}\n", name, checked ? paint(!drift, or_none(drift)) : why_not);
  };
  line("first_drift:", report.first_drift(), report.provider_recorded, "not comparable");
  line("first_isolated_drift:", report.first_isolated_drift(), report.provider_recorded, "not comparable");
  line("first_repeat_drift:", report.first_repeat_drift(), report.request.repeat, "not checked (--repeat)");
  line("first_batch_drift:", report.first_batch_drift(), report.request.batch_rows,
       "not checked (--batch-rows)");
  if (report.permuted_rows_changed)
    out +=
        fmt::format("{:<22}{} of {} rows changed\n", "row permutation:",
                    paint(*report.permuted_rows_changed == 0, std::to_string(*report.permuted_rows_changed)),
                    report.rows);
  out += fmt::format("time                  candidate {:.1f} s, golden {:.1f} s\n", report.seconds_candidate,
                     report.seconds_golden);
  out += fmt::format("verdict               {}\n",
                     paint(report.accepted(), report.accepted() ? "accepted" : "NOT accepted"));
  return out;
}

Json to_json(const ReplayReport& report) {
  const ReplayRequest& asked = report.request;
  Json json = {{"schema", "h3.replay.v1"},
               {"graph", report.graph},
               {"layout", {{"name", asked.layout}, {"rows", report.rows}, {"sha256", report.layout_sha256}}},
               {"engine", asked.engine},
               {"chain_isa", report.chain_isa},
               {"seed", asked.seed},
               {"weights", report.weights},
               {"timesteps", report.timesteps},
               {"provider", {{"recorded", report.provider_recorded}, {"environment", report.provider}}}};
  for (const auto& boundary : report.boundaries)
    json["boundaries"].push_back(
        {{"name", boundary.name},
         {"shape", boundary.shape},
         {"xxh3_128", boundary.xxh3_128},
         {"equals_provider", boundary.equals_provider ? Json(*boundary.equals_provider) : Json()}});
  for (const auto& node : report.nodes) {
    Json entry = {{"node", node.node},
                  {"row", node.row},
                  {"binding", name_of(node.binding)},
                  {"dtype", name_of(node.dtype)},
                  {"shape", node.shape},
                  {"xxh3_128", node.xxh3_128},
                  {"sha256", node.sha256},
                  {"seconds", number(node.seconds)}};
    entry["golden"] = nullptr;
    if (node.golden)
      entry["golden"] = {{"relative_l2", number(node.golden->relative_l2)},
                         {"max_abs", number(node.golden->max_abs)},
                         {"max_abs_index", node.golden->max_abs_index},
                         {"bound", node.golden->bound ? number(*node.golden->bound) : Json()},
                         {"accepted", node.golden->accepted}};
    entry["provider"] = nullptr;
    if (node.provider)
      entry["provider"] = {{"equal", node.provider->equal},
                           {"rows_differing", node.provider->rows_differing},
                           {"sampled_elements", node.provider->sampled_elements},
                           {"elements_differing", node.provider->elements_differing},
                           {"isolated", node.isolated},
                           {"first", to_json(node.provider->first)}};
    entry["repeat_drift"] = to_json(node.repeat_drift);
    entry["batch_drift"] = to_json(node.batch_drift);
    json["nodes"].push_back(std::move(entry));
  }
  json["bindings"] = {{"row", report.nodes_bound_to_row()}, {"nodes", report.nodes.size()}};
  const auto finding = [&](const char* name, bool checked, const std::optional<Drift>& drift) {
    json["drift"][name] = {{"checked", checked}, {"first", to_json(drift)}};
  };
  finding("first_drift", report.provider_recorded, report.first_drift());
  finding("first_isolated_drift", report.provider_recorded, report.first_isolated_drift());
  finding("first_repeat_drift", asked.repeat, report.first_repeat_drift());
  finding("first_batch_drift", asked.batch_rows, report.first_batch_drift());
  json["permuted_rows_changed"] = report.permuted_rows_changed ? Json(*report.permuted_rows_changed) : Json();
  json["seconds"] = {{"candidate", number(report.seconds_candidate)},
                     {"golden", number(report.seconds_golden)}};
  json["accepted"] = report.accepted();
  return json;
}

}  // namespace h3
