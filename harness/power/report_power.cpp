#include "harness/power/report_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/compare/calibrated_bound.h"
#include "harness/report/report_parts.h"

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

// ---- detection floors

std::string to_table(const std::vector<TensorFloors>& tensors) {
  std::string out =
      fmt::format("{:<30} {:>9} {:>9} {:>9} {:>9} {:>9} {:>17} {:>9} {:>9}  {}\n", "tensor", "bound",
                  "random", "scaling", "shift", "permuted", "row (worst)", "head", "modality", "bits");
  constexpr const char* kFaults[] = {"random",  "scaling",  "shift",       "rows_permuted",
                                     "one_row", "one_head", "one_modality"};
  std::int64_t blind = 0, blind_without_bits = 0;
  for (const auto& tensor : tensors) {
    std::string name = tensor.name;
    if (const auto dot = name.find("transformer_blocks.0."); dot == 0) name = name.substr(21);
    out += fmt::format("{:<30} {:>9.2e}", (tensor.backward ? "d " : "") + name,
                       tensor.bound.relative_l2.value_or(0));
    for (const char* fault : kFaults) {
      const auto floor = std::ranges::find(tensor.floors, fault, &DetectionFloor::fault);
      const int width = std::string_view(fault) == "one_row" ? 17 : 9;
      const std::string cell = floor == tensor.floors.end() ? "-"
                               : width == 17 ? fmt::format("{:.2g} ({:.2g})", floor->typical, floor->worst)
                                             : fmt::format("{:.2e}", floor->worst);
      out += fmt::format(" {:>{}}", cell, width);
      if (floor == tensor.floors.end()) continue;
      blind += floor->blind;
      blind_without_bits += tensor.provider_bytes ? 0 : floor->blind;
    }
    out += fmt::format("  {}\n", tensor.provider_bytes ? "one bit" : "-");
  }
  const auto spots = blind_spots(tensors);
  out += fmt::format(
      "\n{} tensors; blind spots of a whole tensor: {}; rows, heads and modalities that the bound would "
      "not miss as a whole: {}, of these without the provider's bytes: {}\n",
      tensors.size(), spots.empty() ? "none" : std::to_string(spots.size()), blind, blind_without_bits);
  for (const auto& spot : spots) out += spot + "\n";
  return out;
}

Json to_json(const std::vector<TensorFloors>& tensors) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    Json floors = Json::object();
    for (const auto& floor : tensor.floors)
      floors[floor.fault] = {{"typical", number(floor.typical)},
                             {"worst", number(floor.worst)},
                             {"parts", floor.parts},
                             {"blind", floor.blind}};
    list.push_back({{"tensor", tensor.name},
                    {"pass", tensor.backward ? "backward" : "forward"},
                    {"bound",
                     {{"relative_l2", tensor.bound.relative_l2 ? number(*tensor.bound.relative_l2) : Json()},
                      {"max_abs", tensor.bound.max_abs ? number(*tensor.bound.max_abs) : Json()}}},
                    {"provider_bytes", tensor.provider_bytes},
                    {"floors", floors}});
  }
  return {{"schema", "h3.power.floors.v1"}, {"tensors", list}, {"blind_spots", blind_spots(tensors)}};
}

// ---- summation orders

std::string to_table(const std::vector<OrderCertificate>& certificates, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format("{:<18} {:<18} {:>5}  {:<40} {:<10} {}\n", "node", "sum", "terms",
                                "order found", "digest", "declared");
  for (const auto& one : certificates)
    out += fmt::format("{:<18} {:<18} {:>5}  {:<40} {:<10} {}\n", one.reduction.node, one.reduction.sum,
                       one.reduction.terms, one.found, one.digest,
                       paint(one.as_declared(), one.as_declared() ? "= declared" : one.reduction.declared));
  return out;
}

Json to_json(const std::vector<OrderCertificate>& certificates) {
  Json list = Json::array();
  for (const auto& one : certificates)
    list.push_back({{"node", one.reduction.node},
                    {"sum", one.reduction.sum},
                    {"terms", one.reduction.terms},
                    {"declared", one.reduction.declared},
                    {"found", one.found},
                    {"digest", one.digest},
                    {"as_declared", one.as_declared()}});
  return {{"schema", "h3.power.orders.v1"}, {"reductions", list}};
}

// ---- false alarms

std::string to_table(const std::vector<AlarmCount>& counts) {
  std::string out = fmt::format(
      "rules of block 0: k = {} forward, {} backward\n{:<16} {:>7} {:>8} {:>7} {:>12} {:>10}  {}\n",
      kForwardFactor, kBackwardFactor, "honest run", "repeats", "tensors", "alarms", "rate (95 %)",
      "worst used", "tensor");
  for (const auto& count : counts)
    out += fmt::format("{:<16} {:>7} {:>8} {:>7} {:>12} {:>10.2f}  {}\n", name_of(count.variant),
                       count.repeats, count.tensors, count.alarms,
                       fmt::format("< {:.2f} %", 100 * count.upper_rate()), count.worst_used, count.worst);
  return out;
}

Json to_json(const std::vector<AlarmCount>& counts) {
  Json list = Json::array();
  for (const auto& count : counts)
    list.push_back({{"variant", name_of(count.variant)},
                    {"repeats", count.repeats},
                    {"tensors", count.tensors},
                    {"alarms", count.alarms},
                    {"upper_rate_95", number(count.upper_rate())},
                    {"worst_used", number(count.worst_used)},
                    {"worst", count.worst},
                    {"seconds", number(count.seconds)}});
  return {{"schema", "h3.power.alarms.v1"},
          {"k", {{"forward", kForwardFactor}, {"backward", kBackwardFactor}}},
          {"variants", list}};
}

// ---- mutants

namespace {

struct Kills {
  int mutants = 0, killed = 0;
};

std::map<std::string, Kills> kills_by_kind(const MutantRecord& record, const MutantCatalogue& catalogue) {
  std::map<std::string, Kills> kinds;
  for (const Mutant& mutant : catalogue.mutants) {
    const MutantVerdict* verdict = record.find(mutant.name);
    ++kinds[mutant.kind].mutants;
    kinds[mutant.kind].killed += verdict != nullptr && verdict->killed;
  }
  return kinds;
}

}  // namespace

std::string to_table(const MutantRecord& record, const MutantCatalogue& catalogue) {
  std::string out =
      fmt::format("mutants, engine {}, measured on sources {}{}\n", record.engine,
                  record.sources_sha256.substr(0, 16), record.machine.empty() ? "" : ", " + record.machine);
  Kills all;
  for (const auto& [kind, kills] : kills_by_kind(record, catalogue)) {
    out += fmt::format("  {:<28} {:>3} of {:>3} killed\n", kind, kills.killed, kills.mutants);
    all.mutants += kills.mutants;
    all.killed += kills.killed;
  }
  for (const Mutant& mutant : catalogue.mutants)
    if (const MutantVerdict* verdict = record.find(mutant.name); verdict == nullptr || !verdict->killed)
      out +=
          fmt::format("  {} {}: {}\n", verdict ? "survives:" : "not measured:", mutant.name, mutant.survives);
  return out + fmt::format("{} of {} killed, {:.1f} %\n", all.killed, all.mutants,
                           all.mutants ? 100.0 * all.killed / all.mutants : 0);
}

Json to_json(const MutantRecord& record, const MutantCatalogue& catalogue) {
  Json json = to_json(record);
  json["kinds"] = Json::object();
  for (const auto& [kind, kills] : kills_by_kind(record, catalogue))
    json["kinds"][kind] = {{"mutants", kills.mutants}, {"killed", kills.killed}};
  return json;
}

}  // namespace h3
