#include "harness/replay/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/replay/report_cells.h"

namespace h3 {

using namespace report;

std::string to_table(const ReplayReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format("{}  layout {} (S = {})  engine {} ({})\nweights   {}\nprovider  {}\n\n",
                                report.graph, report.request.layout, report.rows, report.request.engine,
                                report.chain_isa, report.weights, report.provider);
  out += fmt::format("{:<17} {:<24} {:<10} {:>11} {:>11} {:>10} {:>7}  {:<18} {}\n", "node", "RFC row",
                     "binding", "error", "bound", "max abs", "s", "digest (xxh3)", "provider");
  for (const auto& node : report.nodes) {
    out += fmt::format(
        "{:<17} {:<24} {:<10} {} {:>7.2f}  {:<18} {}\n", node.node, node.row, name_of(node.binding),
        error_cells(node.golden), node.seconds, node.xxh3_128.substr(0, 16),
        node.provider ? paint(node.provider->equal, provider_cell(*node.provider, node.shape[0]))
                      : "no record");
  }
  out += "\nboundaries ";
  for (const auto& boundary : report.boundaries)
    out += fmt::format(
        " {} {}", boundary.name,
        !boundary.equals_provider
            ? "(no record)"
            : paint(*boundary.equals_provider, *boundary.equals_provider ? "= provider;" : "DIFFERS;"));
  out += fmt::format("\nbindings              {}\n", bindings_cell(report.bindings()));
  const auto line = [&](const char* name, const std::optional<Drift>& drift, bool checked,
                        const char* why_not) {
    out += fmt::format("{:<22}{}\n", name, drift_cell(paint, drift, checked, why_not));
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
  std::vector<std::pair<std::string, const SampledUlp*>> ulp;
  for (const auto& node : report.nodes)
    if (node.ulp) ulp.emplace_back(node.node, &*node.ulp);
  if (!ulp.empty()) out += fmt::format("{:<22}{}\n", "ulp to the golden:", ulp_cell(ulp));
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
    entry["golden"] = json_of(node.golden);
    entry["provider"] = nullptr;
    if (node.provider) {
      entry["provider"] = json_of(*node.provider);
      entry["provider"]["isolated"] = node.isolated;
    }
    entry["ulp"] = json_of(node.ulp);
    entry["repeat_drift"] = json_of(node.repeat_drift);
    entry["batch_drift"] = json_of(node.batch_drift);
    json["nodes"].push_back(std::move(entry));
  }
  json["bindings"] = json_of(report.bindings());
  const auto finding = [&](const char* name, bool checked, const std::optional<Drift>& drift) {
    json["drift"][name] = {{"checked", checked}, {"first", json_of(drift)}};
  };
  finding("first_drift", report.provider_recorded, report.first_drift());
  finding("first_isolated_drift", report.provider_recorded, report.first_isolated_drift());
  finding("first_repeat_drift", asked.repeat, report.first_repeat_drift());
  finding("first_batch_drift", asked.batch_rows, report.first_batch_drift());
  json["permuted_rows_changed"] = report.permuted_rows_changed ? Json(*report.permuted_rows_changed) : Json();
  json["seconds"] = {{"candidate", number(report.seconds_candidate)},
                     {"golden", number(report.seconds_golden)}};
  json["accepted"] = report.accepted();
  json["backward"] = nullptr;
  return json;
}

}  // namespace h3
