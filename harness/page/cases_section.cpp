// Every case of every gate, by fixture; what did not pass stands open.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

using gate::CaseVerdict;
using gate::Outcome;

// A page may not exceed 2 MB. What passed gives way first; it stands in the ledger.
constexpr std::size_t kMostBytes = 900'000;

struct Group {
  std::vector<const CaseVerdict*> cases;
  std::size_t passed = 0;
  double seconds = 0;
};

// "block0/RmsNorm.matches_golden/B0_03_bf16" -> "RmsNorm", "matches_golden B0_03_bf16".
std::string fixture_of(const std::string& name) {
  const std::size_t begin = name.find('/') + 1;
  return name.substr(begin, name.find('.', begin) - begin);
}
std::string claim_of(const std::string& name) {
  const std::size_t dot = name.find('.', name.find('/') + 1);
  std::string claim = dot == std::string::npos ? name : name.substr(dot + 1);
  std::replace(claim.begin(), claim.end(), '/', ' ');
  return claim;
}

std::string property(const CaseVerdict& one, const char* key) {
  for (const auto& [name, value] : one.properties)
    if (name == key) return value;
  return "";
}

double value_of(const std::string& text) { return text.empty() ? kNone : std::strtod(text.c_str(), nullptr); }

Markup outcome_cell(const CaseVerdict& one) {
  const bool passed = one.outcome == Outcome::passed;
  return cell(passed                           ? "✓"
              : one.outcome == Outcome::failed ? "✗ failed"
                                               : "✗ not run",
              passed ? "good" : "bad");
}

Markup why(const CaseVerdict& one) {
  return element("tr", {{"class", "why"}}, element("td", {{"colspan", "5"}}, one.message.substr(0, 400)));
}

Markup line_of(const CaseVerdict& one, const std::string& from) {
  const std::string measured = property(one, "measured"), limit = property(one, "limit");
  Markup line = head(claim_of(one.name));
  line << outcome_cell(one);
  line << (from.empty() ? cell("–", "n") : number_cell("seconds", fmt::format("{:.2f}", one.seconds)));
  line << (measured.empty() ? cell("") : number_cell("properties/measured", scientific(value_of(measured))));
  line << (limit.empty() ? cell("") : number_cell("properties/limit", scientific(value_of(limit))));
  Markup code = row(from, line);
  if (one.outcome != Outcome::passed) code << why(one);
  return code;
}

// Cases that all ended alike without passing, for want of a GPU say, are one line.
bool all_alike(const Group& group) {
  const CaseVerdict& first = *group.cases.front();
  return group.cases.size() > 1 && group.passed == 0 &&
         std::ranges::all_of(group.cases, [&](const CaseVerdict* one) {
           return one->outcome == first.outcome && one->message == first.message;
         });
}

Markup line_of_all(const Group& group) {
  const CaseVerdict& first = *group.cases.front();
  Markup line = head(fmt::format("all {} cases", group.cases.size()));
  line << outcome_cell(first) << cell("–", "n") << cell("") << cell("");
  return row("", line) << why(first);
}

// Where each case ended: its last case_end in the ledger.
std::map<std::string, std::string> places(const Source& source, std::size_t index) {
  std::map<std::string, std::string> places;
  for (std::size_t i = 0; i < source.json["events"].size(); ++i) {
    const Json& event = source.json["events"][i];
    if (event.value("event", Json()) == "case_end" && event.value("case", Json()).is_string())
      places[event["case"]] = fmt::format("{}/events/{}", index, i);
  }
  return places;
}

Markup gate_cases(const Run& run, const GateRun& gate, std::size_t& bytes) {
  const auto place = places(run.inputs.sources[gate.source], gate.source);
  std::map<std::string, Group> groups;
  for (const CaseVerdict& one : gate.verdict.cases) {
    Group& group = groups[fixture_of(one.name)];
    group.cases.push_back(&one);
    group.passed += one.outcome == Outcome::passed;
    group.seconds += one.seconds;
  }
  Markup code;
  std::size_t left_out = 0;
  for (const auto& [fixture, group] : groups) {
    const bool all = group.passed == group.cases.size();
    Table table{.caption = gate.verdict.gate + ": " + fixture,
                .columns = {"claim and row", "outcome", "seconds", "measured", "limit"},
                .kind = "cases searchable"};
    Markup short_rows;
    if (all_alike(group)) {
      table.rows << line_of_all(group);
    } else {
      for (const CaseVerdict* one : group.cases) {
        const auto at = place.find(one->name);
        const Markup line = line_of(*one, at == place.end() ? "" : at->second);
        table.rows << line;
        if (one->outcome != Outcome::passed) short_rows << line;
      }
      if (bytes + table.rows.code.size() > kMostBytes) {
        left_out += group.passed;
        table.rows = short_rows;
      }
    }
    bytes += table.rows.code.size();
    const Markup summary = element("span", {{"class", "fixture"}}, fixture) +
                           verdict(all, fmt::format("{} of {}", group.passed, group.cases.size())) +
                           element("span", {{"class", "muted"}}, seconds(group.seconds));
    code << element(
        "details", {{"class", "group"}, {"open", all ? "" : "open"}},
        element("summary", summary) + (table.rows.empty() ? element("p", "All passed.") : table.code()));
  }
  if (left_out > 0)
    code << element(
        "p", {{"class", "note"}},
        fmt::format(
            "{} passed cases are not listed one by one: the page has a limit. They are in ledger.jsonl.",
            grouped(std::int64_t(left_out))));
  return element("h3", fmt::format("gate {}", gate.verdict.gate)) +
         element("p", {{"class", "note"}}, gate.verdict.summary()) + code;
}

}  // namespace

Markup cases_section(const Run& run) {
  Markup code;
  std::size_t bytes = 0;
  for (const GateRun& gate : run.inputs.gates) code << gate_cases(run, gate, bytes);
  return section("cases", "Every case",
                 "By fixture; a claim is a sentence about it, a row what it was tried on.", code);
}

}  // namespace h3::page
