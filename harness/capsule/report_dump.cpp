#include <fmt/format.h>

#include "harness/capsule/dump_check.h"
#include "harness/replay/report_cells.h"

namespace h3 {

using namespace report;

namespace {

std::string judged_cells(const Paint& paint, const std::optional<DumpJudgement>& judged) {
  if (!judged) return fmt::format("{:<28} {:>9} {:>9}", "not captured", "", "");
  const std::string strict =
      judged->equal ? "= row"
                    : fmt::format("{}, {} of {}", judged->fault, judged->differing, judged->elements);
  const auto& golden = judged->golden;
  return paint(judged->equal, fmt::format("{:<28}", strict)) +
         (golden ? paint(golden->accepted,
                         fmt::format(" {:>9.2e} {:>9.2e}", golden->relative_l2, golden->bound.value_or(0)))
                 : fmt::format(" {:>9} {:>9}", "", ""));
}

// Parameters without the graph's name, which is in the first line.
std::string table_of(const Paint& paint, const char* what, const DumpReport& report,
                     const std::vector<DumpValue>& values) {
  std::string out = fmt::format("{:<24} {:<16} {:<28} {:>9} {:>9}  {:<28} {:>9} {:>9}\n", what, "by",
                                "isolated", "error", "bound", "chained", "error", "bound");
  for (const DumpValue& value : values) {
    std::string name = value.value;
    if (name.starts_with(report.graph)) name.erase(0, report.graph.size() + 1);
    out += fmt::format("{:<24} {:<16} {}  {}", name, value.by, judged_cells(paint, value.isolated),
                       judged_cells(paint, value.chained));
    if (!value.through.empty()) out += fmt::format("  through {}", fmt::join(value.through, ", "));
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  }
  return out;
}

Json json_of(const std::optional<DumpJudgement>& judged) {
  if (!judged) return nullptr;
  return {{"equal", judged->equal},
          {"differing", judged->differing},
          {"elements", judged->elements},
          {"class", judged->equal ? Json() : Json(judged->fault)},
          {"first", report::json_of(judged->first)},
          {"golden", report::json_of(judged->golden)}};
}

struct Level {
  const char* first;
  const std::vector<DumpValue>* values;
  bool isolated;
};

std::vector<Level> levels_of(const DumpReport& report) {
  std::vector<Level> levels = {{"first_isolated_drift", &report.forward, true},
                               {"first_drift", &report.forward, false}};
  if (!report.backward.empty()) {
    levels.push_back({"first_isolated_grad_drift", &report.backward, true});
    levels.push_back({"first_grad_drift", &report.backward, false});
  }
  return levels;
}

}  // namespace

std::string to_table(const DumpReport& report, bool colour) {
  const Paint paint{colour};
  const DumpRequest& asked = report.request;
  std::string out = fmt::format("{}  S = {}  layout {}\nweights   {}\nruntime   {}\n", report.graph,
                                report.rows, asked.layout.empty() ? "its own" : asked.layout, report.weights,
                                report.runtime.empty() ? "not stated" : report.runtime);
  if (!report.given.empty()) out += fmt::format("given     {} of the suite\n", fmt::join(report.given, ", "));
  out += fmt::format("\n{}", table_of(paint, "node", report, report.forward));
  if (!report.backward.empty())
    out += fmt::format("\n{}", table_of(paint, "gradient of", report, report.backward));
  const auto line = [&](const std::string& name, const std::string& text) {
    out += fmt::format("{:<28}{}\n", name, text);
  };
  out += "\n";
  line("layout:", asked.layout.empty()       ? "not looked at: none is named"
                  : report.layout_difference ? paint(false, *report.layout_difference)
                                             : paint(true, "as " + asked.layout));
  for (const Level& level : levels_of(report)) {
    const auto strict = report.first_drift(*level.values, level.isolated, Strictness::strict),
               calibrated = report.first_drift(*level.values, level.isolated, Strictness::calibrated);
    line(fmt::format("{}:", level.first), drift_cell(paint, strict, true, ""));
    line("  beyond its bound:", drift_cell(paint, calibrated, asked.golden, "not looked at (--no-golden)"));
  }
  if (report.capsule) line("capsule", *report.capsule);
  line("verdict", paint(report.accepted(),
                        fmt::format("{} ({})", report.accepted() ? "accepted" : "NOT accepted",
                                    asked.strictness == Strictness::strict ? "strict" : "calibrated")));
  return out;
}

Json to_json(const DumpReport& report) {
  const DumpRequest& asked = report.request;
  Json json = {{"schema", "h3.dump.v1"},
               {"graph", report.graph},
               {"rows", report.rows},
               {"layout", asked.layout.empty() ? Json() : Json(asked.layout)},
               {"layout_difference", report.layout_difference ? Json(*report.layout_difference) : Json()},
               {"weights", report.weights},
               {"runtime", report.runtime},
               {"given", report.given}};
  for (const auto& [name, values] :
       {std::pair("nodes", &report.forward), std::pair("gradients", &report.backward)}) {
    json[name] = Json::array();
    for (const DumpValue& value : *values)
      json[name].push_back({{"value", value.value},
                            {"by", value.by},
                            {"row", value.row},
                            {"through", value.through},
                            {"isolated", json_of(value.isolated)},
                            {"chained", json_of(value.chained)}});
  }
  for (const Level& level : levels_of(report))
    json["drift"][level.first] = {
        {"strict", report::json_of(report.first_drift(*level.values, level.isolated, Strictness::strict))},
        {"calibrated",
         report::json_of(report.first_drift(*level.values, level.isolated, Strictness::calibrated))}};
  json["capsule"] = report.capsule ? Json(*report.capsule) : Json();
  json["judged"] = asked.strictness == Strictness::strict ? "strict" : "calibrated";
  json["accepted"] = report.accepted();
  return json;
}

}  // namespace h3
