#include "harness/report_power.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report_parts.h"

namespace h3 {

using namespace report;

// ---- controls

bool ControlsReport::all_detected() const { return std::ranges::all_of(entries, &Entry::detected); }

std::string to_table(const ControlsReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format("{:<34} {:<15} {:<42} {:>9} {:>9} {:>6}  {}\n", "control", "class",
                                "first at", "distance", "rows", "bound", "found");
  int run = 0, held = 0, detected = 0, invisible = 0, arithmetic = 0;
  double seconds = 0;
  for (const auto& entry : report.entries) {
    const Control& control = *entry.control;
    out += fmt::format("{:<34} {:<15} {:<42} ", control.name, name_of(control.fault), control.where);
    if (!entry.result) {
      ++held;
      out += fmt::format("{:>9} {:>9} {:>6}  {}\n", "", "", "", control.held_by);
      continue;
    }
    const Finding& found = entry.result->found;
    ++run;
    detected += entry.detected();
    arithmetic += found.beyond_bound.has_value();
    invisible += found.beyond_bound.has_value() && !*found.beyond_bound;
    seconds += entry.result->seconds;
    const std::string verdict =
        entry.detected() ? "as expected"
        : !entry.result->twin_passed
            ? "the twin fails: " + entry.result->twin
            : fmt::format("NOT as expected: {} at {}: {}", name_of(found.fault), found.where, found.detail);
    out +=
        fmt::format("{:>9} {:>9} {:>6}  {}\n", found.distance ? fmt::format("{:.2e}", *found.distance) : "",
                    found.rows ? fmt::format("{}/{}", found.rows_differing, found.rows) : "",
                    !found.beyond_bound   ? ""
                    : *found.beyond_bound ? "sees"
                                          : "blind",
                    paint(entry.detected(), verdict));
  }
  return out +
         fmt::format(
             "\n{} of {} controls found in their class at their node, {:.1f} s; {} more are held by cases "
             "of the gates\nof {} faults in a node's words, the golden's bound alone does not see {}; the "
             "bits do\n",
             detected, run, seconds, held, arithmetic, invisible);
}

Json to_json(const ControlsReport& report) {
  Json list = Json::array();
  for (const auto& entry : report.entries) {
    const Control& control = *entry.control;
    Json json = {{"name", control.name},
                 {"perturbed", control.perturbed},
                 {"expected", {{"class", name_of(control.fault)}, {"where", control.where}}}};
    if (!entry.result) {
      json["held_by"] = control.held_by;
    } else {
      const Finding& found = entry.result->found;
      json["found"] = {{"class", name_of(found.fault)}, {"where", found.where}, {"detail", found.detail}};
      json["relative_l2_to_twin"] = found.distance ? number(*found.distance) : Json();
      json["beyond_golden_bound"] = found.beyond_bound ? Json(*found.beyond_bound) : Json();
      json["twin_passed"] = entry.result->twin_passed;
      json["detected"] = entry.detected();
      json["seconds"] = number(entry.result->seconds);
    }
    list.push_back(json);
  }
  return {{"schema", "h3.power.controls.v1"}, {"controls", list}, {"all_detected", report.all_detected()}};
}

}  // namespace h3
