#include <algorithm>
#include <set>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

std::string text_at(const Json& json, const char* pointer) {
  const Json value = json.is_object() ? json.value(Json::json_pointer(pointer), Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

// "2 x NVIDIA H200, driver 580.159.04", or the CPU.
std::string machine_of(const Json& receipt) {
  const Json gpus =
      receipt.is_object() ? receipt.value(Json::json_pointer("/environment/gpus"), Json()) : Json();
  if (!gpus.is_array() || gpus.empty()) return text_at(receipt, "/environment/cpu");
  std::string name = text_at(gpus.front(), "/name");
  if (gpus.size() > 1) name = fmt::format("{} x {}", gpus.size(), name);
  const std::string driver = text_at(receipt, "/environment/driver");
  return driver.empty() ? name : name + ", driver " + driver;
}

std::string commit_of(const Json& receipt) {
  const std::string commit = text_at(receipt, "/git/commit");
  if (commit.empty()) return "";
  const Json clean = receipt.value(Json::json_pointer("/git/clean"), Json());
  return commit.substr(0, 12) + (clean == true ? "" : clean == false ? " with changes" : "");
}

std::string engine_of(const TensorReport& report) {
  return report.device.empty() ? report.engine : report.engine + " (" + report.device + ")";
}

// The sign in front of the verdict: a tick or a cross in a ring, drawn.
Markup sign(bool good) {
  return element(
      "svg", {{"class", "sign"}, {"viewBox", "0 0 48 48"}, {"aria-hidden", "true"}},
      element("circle", {{"cx", "24"}, {"cy", "24"}, {"r", "21"}}) +
          element("path", {{"d", good ? "M14 25 L21.5 32.5 L35 17" : "M16 16 L32 32 M32 16 L16 32"}}));
}

struct Fact {
  const char* name;
  std::set<std::string> values;
};

Markup facts(const Run& run) {
  Fact list[] = {{"Machine", {}}, {"Date", {}}, {"Commit", {}}, {"Engine", {}}, {"Provider", {}}};
  auto& [machine, date, commit, engine, provider] = list;
  for (const GateRun& gate : run.inputs.gates) {
    const Json& receipt = run.inputs.sources[gate.source].json["receipt"];
    machine.values.insert(machine_of(receipt));
    commit.values.insert(commit_of(receipt));
    date.values.insert(gate.verdict.started.substr(0, 10));
  }
  for (const TensorReport& report : run.reports) {
    engine.values.insert(engine_of(report));
    provider.values.insert(report.provider);
  }
  Markup code;
  for (Fact& fact : list) {
    fact.values.erase("");
    if (fact.values.empty()) continue;
    Markup values;
    for (const std::string& value : fact.values) values << element("dd", value);
    code << element("div", element("dt", fact.name) + values);
  }
  return code.empty() ? code : element("dl", {{"class", "facts"}}, code);
}

Markup card(bool good, const std::string& kind, const std::string& name, const Markup& count,
            const std::string& below) {
  return element("li", {{"class", good ? "card good" : "card bad"}},
                 element("p", {{"class", "kind"}}, kind) + element("h3", name) +
                     element("p", {{"class", "count"}}, count) + element("p", {{"class", "below"}}, below));
}

Markup gate_card(const Run& run, const GateRun& gate) {
  const gate::Verdict& found = gate.verdict;
  const Json& receipt = run.inputs.sources[gate.source].json["receipt"];
  const Markup count = element(
      "span", {{"data-from", fmt::format("{}/receipt", gate.source)}},
      element("strong", {{"data-at", receipt.is_object() ? "passed" : ""}}, grouped(found.passed)) +
          words(" of ") +
          element("span", {{"data-at", receipt.is_object() ? "required" : ""}}, grouped(found.required)) +
          words(" required cases passed"));
  const std::string machine = machine_of(receipt), commit = commit_of(receipt);
  std::string below =
      fmt::format("{} · {}", found.started.empty() ? "no date" : found.started, seconds(found.seconds));
  for (const std::string& more : {machine, commit})
    if (!more.empty()) below += " · " + more;
  return card(gate.closed(),
              gate.closed()       ? "gate, closed"
              : found.all_skipped ? "gate, skipped: not closed"
                                  : "gate, not closed",
              found.gate, count, below);
}

Markup report_card(const TensorReport& report) {
  const auto accepted = std::ranges::count_if(report.readings, &Reading::accepted);
  const auto same = std::ranges::count(report.readings, Bytes::same, &Reading::provider);
  const auto compared = same + std::ranges::count(report.readings, Bytes::differ, &Reading::provider);
  std::string below = engine_of(report) + " · " + report.weights;
  if (compared > 0) below = fmt::format("{} of {} with the provider's bytes · ", same, compared) + below;
  const Markup count =
      element("strong", grouped(accepted)) +
      words(fmt::format(" of {} tensors inside their bound", grouped(std::int64_t(report.readings.size()))));
  const char* kind = report.whole_model ? "full model" : "replay";
  return card(report.accepted, fmt::format("{}, {}", kind, report.accepted ? "accepted" : "not accepted"),
              report.subject(), count, below);
}

// What keeps a run from being closed, one line each.
Markup problems(const Run& run) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> lines;
  for (const GateRun& gate : run.inputs.gates) {
    const std::string at = gate.verdict.gate + ": ";
    for (const auto& [name, text] : gate.verdict.problems)
      lines.push_back(at + text.substr(0, text.find('\n')));
    for (const auto& text : gate.disagreements) lines.push_back(at + text);
    if (gate.verdict.all_skipped) {
      lines.push_back(at + gate.verdict.cases.front().message + " (every case)");
      continue;
    }
    for (const auto& one : gate.verdict.cases)
      if (one.outcome != gate::Outcome::passed) lines.push_back(one.name + ": " + one.message.substr(0, 200));
  }
  for (const TensorReport& report : run.reports)
    for (const Drift& drift : report.drifts)
      if (!drift.none && !report.accepted)
        lines.push_back(fmt::format("{}: {}: {}", report.subject(), drift.name, drift.found));
  Markup items;
  for (std::size_t i = 0; i < std::min(lines.size(), kMost); ++i) items << element("li", lines[i]);
  if (lines.size() > kMost) items << element("li", fmt::format("and {} more, below", lines.size() - kMost));
  return items.empty() ? items : element("ul", {{"class", "problems"}}, items);
}

}  // namespace

Markup verdict_section(const Run& run) {
  std::int64_t required = 0, passed = 0;
  for (const GateRun& gate : run.inputs.gates)
    required += gate.verdict.required, passed += gate.verdict.passed;
  const auto gates = std::int64_t(run.inputs.gates.size()), reports = std::int64_t(run.reports.size());
  const auto closed = std::ranges::count_if(run.inputs.gates, &GateRun::closed);
  const auto accepted = std::ranges::count_if(run.reports, &TensorReport::accepted);
  std::vector<std::string> sums;
  if (gates > 0) {
    sums.push_back(fmt::format("{} of {} gates closed", closed, gates));
    sums.push_back(fmt::format("{} of {} required cases ran and passed", grouped(passed), grouped(required)));
  }
  if (reports > 0) sums.push_back(fmt::format("{} of {} reports accepted", accepted, reports));

  const bool judged = gates + reports > 0, good = run.closed();
  const std::string title = !judged     ? "Measured"
                            : gates > 0 ? (good ? "Closed" : "Not closed")
                            : good      ? "Accepted"
                                        : "Not accepted";
  Markup cards;
  for (const GateRun& gate : run.inputs.gates) cards << gate_card(run, gate);
  for (const TensorReport& report : run.reports) cards << report_card(report);
  return element("header",
                 {{"class", !judged ? "hero"
                            : good  ? "hero good"
                                    : "hero bad"},
                  {"id", "verdict"}},
                 element("p", {{"class", "eyebrow"}}, "MiniMax-H3 conformance") +
                     element("h1", (judged ? sign(good) : Markup()) + words(title)) +
                     element("p", {{"class", "sum"}}, fmt::format("{}", fmt::join(sums, " · "))) +
                     facts(run)) +
         problems(run) + (cards.empty() ? cards : element("ul", {{"class", "cards"}}, cards));
}

}  // namespace h3::page
