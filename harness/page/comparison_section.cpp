// Two runs: which outcomes changed, which bytes, and which errors moved.
#include <algorithm>
#include <cmath>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

constexpr std::size_t kMost = 40;  // lines of a table of differences

const char* outcome_of(const gate::CaseVerdict* one) {
  if (!one) return "absent";
  return one->outcome == gate::Outcome::passed   ? "passed"
         : one->outcome == gate::Outcome::failed ? "failed"
                                                 : "not run";
}

Markup gates(const Run& run, const Run& against) {
  std::map<std::string, std::pair<const GateRun*, const GateRun*>> pairs;
  for (const GateRun& gate : run.inputs.gates) pairs[gate.verdict.gate].first = &gate;
  for (const GateRun& gate : against.inputs.gates) pairs[gate.verdict.gate].second = &gate;
  if (pairs.empty()) return {};
  Table table{.caption = "Gates of both runs",
              .columns = {"gate", "this run", "the other", "outcomes that differ"}};
  Table changes{.caption = "Cases whose outcome differs", .columns = {"case", "this run", "the other"}};
  std::size_t listed = 0;
  for (const auto& [name, pair] : pairs) {
    const auto& [here, there] = pair;
    const auto said = [](const GateRun* gate) {
      return gate ? element("td", verdict(gate->closed(), fmt::format("{} of {}", gate->verdict.passed,
                                                                      gate->verdict.required)))
                  : cell("absent", "muted");
    };
    std::map<std::string, std::pair<const gate::CaseVerdict*, const gate::CaseVerdict*>> cases;
    if (here)
      for (const auto& one : here->verdict.cases) cases[one.name].first = &one;
    if (there)
      for (const auto& one : there->verdict.cases) cases[one.name].second = &one;
    std::int64_t differ = 0;
    for (const auto& [case_name, both] : cases) {
      if (std::string_view(outcome_of(both.first)) == outcome_of(both.second)) continue;
      ++differ;
      if (here && there && ++listed <= kMost)
        changes.rows << row("",
                            head(case_name) + cell(outcome_of(both.first)) + cell(outcome_of(both.second)));
    }
    table.rows << row(
        "", head(name) + said(here) + said(there) + cell(here && there ? grouped(differ) : "–", "n"));
  }
  if (listed > kMost) changes.rows << row("", head(fmt::format("and {} more", listed - kMost)));
  return table.code() + (changes.rows.empty() ? Markup() : changes.code());
}

struct Change {
  const Reading *here, *there;
  double ratio = 1;  // of the errors
};

double error_of(const Reading& one) {
  if (one.isolated) return one.isolated->error;
  return one.chained ? one.chained->error : kNone;
}

Markup tensors(const TensorReport& here, const TensorReport& there) {
  std::vector<Change> changes;
  std::int64_t both = 0, same = 0;
  std::string first;
  for (const Reading& one : here.readings) {
    const auto other = std::ranges::find_if(there.readings, [&](const Reading& candidate) {
      return candidate.pass == one.pass && candidate.name == one.name &&
             candidate.place.part == one.place.part && candidate.place.index == one.place.index;
    });
    if (other == there.readings.end()) continue;
    ++both;
    if (other->digest == one.digest) {
      ++same;
      continue;
    }
    if (first.empty()) first = (one.pass == Pass::backward ? "gradient of " : "") + one.name;
    changes.push_back({&one, &*other, error_of(one) / error_of(*other)});
  }
  const auto moved = [](const Change& change) {
    return std::isfinite(change.ratio) && change.ratio > 0 ? std::abs(std::log(change.ratio)) : 1e300;
  };
  std::ranges::stable_sort(changes, [&](const Change& a, const Change& b) { return moved(a) > moved(b); });
  Table table{.caption = here.subject() + ": errors of the tensors with other bytes, the most moved first",
              .columns = {"tensor", "this run", "the other", "ratio", "verdicts"}};
  for (std::size_t i = 0; i < std::min(changes.size(), kMost); ++i) {
    const auto& [one, other, ratio] = changes[i];
    const std::string name = (one->pass == Pass::backward ? "d " : "") +
                             (one->place.index >= 0 ? fmt::format("{}: ", one->place.index) : "") + one->name;
    table.rows << row("", head(name) + cell(scientific(error_of(*one)), "n") +
                              cell(scientific(error_of(*other)), "n") +
                              cell(std::isfinite(ratio) ? fmt::format("{:.3f}", ratio) : "–", "n") +
                              cell(one->accepted == other->accepted ? "the same"
                                   : one->accepted                  ? "now accepted"
                                                                    : "now refused",
                                   one->accepted == other->accepted ? "muted"
                                   : one->accepted                  ? "good"
                                                                    : "bad"));
  }
  return element("h3", fmt::format("{}: {} against {}", here.subject(), here.engine, there.engine)) +
         element("p", {{"class", "note"}},
                 words(fmt::format("{} of {} tensors have the same bytes. First difference: ", same, both)) +
                     verdict(first.empty(), first.empty() ? "none" : first)) +
         (changes.empty() ? Markup() : table.code());
}

}  // namespace

Markup comparison_section(const Run& run, const Run& against) {
  Markup code = gates(run, against);
  for (const TensorReport& here : run.reports)
    for (const TensorReport& there : against.reports)
      if (here.whole_model == there.whole_model && here.graph == there.graph && here.layout == there.layout)
        code << tensors(here, there);
  if (code.empty()) code << element("p", "The two runs have nothing in common that could be compared.");
  return section("against", "Against the other run",
                 "The first run is this page's, the other one was named with --against.", code);
}

}  // namespace h3::page
