#include "ctest/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>

#include "model/error.h"

namespace h3::gate {
namespace {

using Json = nlohmann::ordered_json;

// What the ledger says about one case.
struct Trace {
  int begins = 0, ends = 0;
  std::string file, outcome, failures, skips;
  int line = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, std::string>> properties;
};

// What the ledger says about the run.
struct Run {
  std::map<std::string, Trace> cases;
  std::vector<std::string> order;  // of first begin
  std::vector<std::pair<std::string, std::string>> problems;
  std::string open_case, started, refusal;
  double seconds = 0;
  std::int64_t selected = -1, begun = 0;
  int exit_code = -1, signal = 0;
  bool began = false, ended = false, process_ended = false, timed_out = false;

  void problem(const std::string& name, const std::string& text) {
    for (auto& [known, all] : problems)
      if (known == name) {
        all += "\n" + text;
        return;
      }
    problems.emplace_back(name, text);
  }

  // How the run ended, when that is the reason for what is missing.
  std::string end_reason() const {
    if (!refusal.empty()) return "refused: " + refusal;
    if (timed_out) return fmt::format("timeout: the process was ended after {:.1f} s", seconds);
    if (signal != 0) return fmt::format("crash: signal {} ended the process", signal);
    if (began && !ended)
      return fmt::format("crash: the process left with exit code {} before its end", exit_code);
    return "";
  }
};

void read_case_end(const Json& event, Run& run) {
  const std::string name = event.value("case", "");
  if (name.empty() || name != run.open_case)
    run.problem("ledger", fmt::format("case_end of '{}', which is not open", name));
  Trace& trace = run.cases[name];
  ++trace.ends;
  trace.outcome = event.value("outcome", "");
  trace.seconds = event.value("seconds", 0.0);
  if (event.contains("properties"))
    for (const auto& [key, value] : event["properties"].items())
      trace.properties.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  run.open_case.clear();
}

void read_part(const Json& event, Run& run) {
  const std::string name = event.value("case", ""), kind = event.value("kind", ""),
                    text = event.value("text", "");
  const std::string where = fmt::format("{}:{}: ", event.value("file", ""), event.value("line", 0));
  if (name.empty()) {
    run.problem("outside_of_cases", fmt::format("{} outside of a case: {}{}", kind, where, text));
  } else if (kind == "skip") {
    run.cases[name].skips += text + "\n";
  } else {
    run.cases[name].failures += where + text + "\n";
  }
}

void read_event(const Json& event, Run& run) {
  const std::string what = event["event"];
  if (run.ended && what != "process_end" && what != "interrupted")
    run.problem("ledger", what + " after run_end");
  if (what == "refused") {
    run.refusal = event.value("reason", "");
    run.problem("refused", run.refusal);
  } else if (what == "run_begin") {
    if (run.began) run.problem("ledger", "two runs in one ledger");
    run.began = true;
    run.selected = event.value("selected", -1);
  } else if (what == "case_begin") {
    const std::string name = event.value("case", "");
    if (!run.open_case.empty())
      run.problem("ledger", "case " + run.open_case + " did not end before " + name + " began");
    Trace& trace = run.cases[name];
    if (trace.begins++ == 0) run.order.push_back(name);
    trace.file = event.value("file", "");
    trace.line = event.value("line", 0);
    run.open_case = name;
    ++run.begun;
  } else if (what == "part") {
    read_part(event, run);
  } else if (what == "case_end") {
    read_case_end(event, run);
  } else if (what == "run_end") {
    run.ended = true;
    if (event.value("exit_code", -1) == 2) run.problem("process", "the binary says that nothing ran");
  } else if (what == "process_end") {
    run.process_ended = true;
    run.exit_code = event.value("exit_code", -1);
    run.signal = event.value("signal", 0);
    run.timed_out = event.value("timed_out", false);
    run.seconds = event.value("seconds", 0.0);
    run.started = event.value("started", "");
  } else if (what == "interrupted") {
    run.problem("process", "h3_gate itself did not come to its end");
  } else if (what != "binary" && what != "loaded") {
    run.problem("ledger", "unknown event " + what);
  }
}

Run read_run(const Ledger& ledger) {
  Run run;
  for (const Json& event : ledger.events) {
    try {
      read_event(event, run);
    } catch (const Json::exception& error) {
      run.problem("ledger", fmt::format("seq {}: {}", event["seq"].dump(), error.what()));
    }
  }
  if (!ledger.defect.empty()) run.problem("ledger", ledger.defect);
  if (ledger.torn_bytes != 0)
    run.problem("ledger", fmt::format("the last line is torn after {} bytes", ledger.torn_bytes));
  if (!run.process_ended) run.problem("ledger", "not sealed: no process_end");
  if (run.selected >= 0 && run.ended && run.begun != run.selected)
    run.problem("process", fmt::format("{} cases were selected, {} began", run.selected, run.begun));
  if (const std::string reason = run.end_reason(); !reason.empty()) {
    if (run.refusal.empty())
      run.problem("process", reason + (run.open_case.empty() ? "" : " in " + run.open_case));
  } else if (!run.began) {
    run.problem("process", fmt::format("the binary wrote nothing and left with exit code {}", run.exit_code));
  }
  return run;
}

// What a dashboard shows in a list. GoogleTest begins with "Value of: ..." and has what an assertion says
// about itself on the line after it: "  Actual: false (1 of 4000 words differ, limit 0".
std::string one_line(const std::string& text) {
  const auto line_at = [&](std::size_t begin) { return text.substr(begin, text.find('\n', begin) - begin); };
  constexpr std::string_view kSays = "  Actual: false (", kValue = "Value of: ";
  const std::string first = line_at(0);
  const std::size_t second = first.size() + 1, value = first.find(kValue);
  if (value == std::string::npos || text.compare(second, kSays.size(), kSays) != 0) return first;
  return first.substr(0, value) + line_at(second + kSays.size());
}

void set(CaseVerdict& one, Outcome outcome, const std::string& type, const std::string& text) {
  one.outcome = outcome;
  one.type = type;
  one.message = one_line(text);
  one.text = text;
  if (text.find("rerun: ") == std::string::npos)
    one.text += fmt::format("\nrerun: h3_conformance --gtest_filter='{}'\n", one.name);
}

const std::string* property(const CaseVerdict& one, const std::string& key) {
  for (const auto& [name, value] : one.properties)
    if (name == key) return &value;
  return nullptr;
}

// The number of a property; nothing when there is no such property. Otherwise `defect` says why it is none.
std::optional<double> number_of(const CaseVerdict& one, const std::string& key, std::string& defect) {
  const std::string* value = property(one, key);
  if (!value) return {};
  char* end = nullptr;
  const double number = std::strtod(value->c_str(), &end);
  if (value->empty() || *end != '\0' || !std::isfinite(number))
    defect = fmt::format("{}={} is not a finite number", key, *value);
  return number;
}

// What is wrong with the numbers of a case that says it passed: one is NaN or infinite, or beyond its limit.
// A case may have several: video_measured has video_limit. A planted fault's rejected_measured is no claim.
std::string metric_defect(const CaseVerdict& one) {
  constexpr std::string_view kMeasured = "measured";
  std::string defect;
  for (const auto& [key, value] : one.properties) {
    if (key.starts_with("rejected_")) continue;
    if (key.ends_with("limit")) number_of(one, key, defect);
    if (!key.ends_with(kMeasured)) continue;
    const auto measured = number_of(one, key, defect);
    const auto limit = number_of(one, key.substr(0, key.size() - kMeasured.size()) + "limit", defect);
    if (defect.empty() && limit && !(*measured <= *limit))
      defect = fmt::format("{} {} exceeds the limit {}", key, *measured, *limit);
  }
  return defect;
}

bool is_allowed(const std::string& skip) {
  constexpr std::array kReasons = {"no_device:", "wrong_arch:", "too_little_memory:", "fixture_absent:"};
  return std::ranges::any_of(kReasons, [&](const char* reason) { return skip.starts_with(reason); });
}

CaseVerdict judge_case(const std::string& name, const Run& run, bool required) {
  CaseVerdict one;
  one.name = name;
  one.required = required;
  const auto found = run.cases.find(name);
  if (found == run.cases.end()) {
    const std::string reason = run.end_reason();
    set(one, Outcome::not_run, "not-run",
        reason.empty()
            ? "missing: required, but this run has no such case; if it was renamed or removed on purpose, "
              "regenerate the list: ./run required, or h3_gate --update-required"
            : "missing: it did not begin; " + reason);
    return one;
  }
  const Trace& trace = found->second;
  one.file = trace.file;
  one.line = trace.line;
  one.seconds = trace.seconds;
  one.properties = trace.properties;
  const std::string* rejected_by = property(one, "rejected_by");
  if (trace.ends < trace.begins) {
    const std::string reason = run.end_reason();
    set(one, Outcome::not_run, "not-run",
        (reason.empty() ? "crash: it began and did not end" : reason) + "\n" + trace.failures);
  } else if (trace.begins > 1) {
    set(one, Outcome::failed, "doubled",
        fmt::format("doubled: it ran {} times\n{}", trace.begins, trace.failures));
  } else if (!trace.failures.empty() || trace.outcome == "failed") {
    set(one, Outcome::failed, rejected_by ? *rejected_by : "claim",
        trace.failures.empty() ? "failed without a message" : trace.failures);
  } else if (trace.outcome == "skipped") {
    one.skipped = true;
    set(one, Outcome::not_run, "not-run",
        "skipped: " + (trace.skips.empty() ? "no reason given" : trace.skips));
  } else if (trace.outcome != "passed") {
    set(one, Outcome::failed, "claim", "unknown outcome '" + trace.outcome + "'");
  } else if (const std::string bad = metric_defect(one); !bad.empty()) {
    set(one, Outcome::failed, "metric", "it passed, but " + bad);
  } else if (!required) {
    set(one, Outcome::failed, "unlisted",
        "unlisted: it passed, but is not in the list of required cases; regenerate the list: ./run required, "
        "or "
        "h3_gate --update-required");
  } else {
    one.outcome = Outcome::passed;
  }
  return one;
}

void count(const CaseVerdict& one, const Run& run, Verdict& verdict) {
  if (!one.required) {
    ++verdict.unlisted;
    return;
  }
  ++verdict.required;
  const auto found = run.cases.find(one.name);
  const bool finished = found != run.cases.end() && found->second.begins == 1 && found->second.ends == 1;
  verdict.ran += finished && !one.skipped;
  verdict.passed += one.outcome == Outcome::passed;
  verdict.failed += one.outcome == Outcome::failed;
  verdict.skipped += one.skipped;
  verdict.missing += one.outcome == Outcome::not_run && !one.skipped;
}

}  // namespace

Verdict judge(const std::string& gate, const Ledger& ledger, const std::vector<std::string>& required) {
  Run run = read_run(ledger);
  Verdict verdict;
  verdict.gate = gate;
  verdict.started = run.started;
  verdict.seconds = run.seconds;
  std::map<std::string, int> listed;
  for (const auto& name : required)
    if (++listed[name] == 1) {
      verdict.cases.push_back(judge_case(name, run, true));
    } else {
      run.problem("required_list", name + " is listed twice");
    }
  for (const auto& name : run.order)
    if (!listed.contains(name)) verdict.cases.push_back(judge_case(name, run, false));
  for (const auto& one : verdict.cases) count(one, run, verdict);

  verdict.all_skipped = verdict.required > 0 && verdict.unlisted == 0 && run.problems.empty() &&
                        run.exit_code == 77 &&
                        std::ranges::all_of(verdict.cases, [&](const CaseVerdict& one) {
                          return one.skipped && is_allowed(run.cases.at(one.name).skips);
                        });
  // A red case explains an exit code other than 0; without one, the exit code is a problem of its own.
  if (run.problems.empty() && run.exit_code != 0 && verdict.passed == verdict.required &&
      verdict.unlisted == 0)
    run.problem("process",
                fmt::format("every case passed, but the process left with exit code {}", run.exit_code));
  verdict.problems = run.problems;
  return verdict;
}

std::string Verdict::summary() const {
  std::string line =
      fmt::format("gate {}: {} of {} required cases ran, {} passed", gate, ran, required, passed);
  if (closed()) return line;
  for (const auto& [count, word] :
       {std::pair{failed, "failed"}, {skipped, "skipped"}, {missing, "missing"}, {unlisted, "unlisted"}})
    if (count > 0) line += fmt::format(", {} {}", count, word);
  return line + ": not closed";
}

}  // namespace h3::gate
