// Every known way in which a test run looks green without being so has to come out red, with the reason in
// the JUnit XML. The misbehaving binary is ctest/false_greens/; here h3_gate runs it as it runs the real one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <pugixml.hpp>
#include <set>
#include <vector>

#include "conformance/host/gate_run.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/path.h"
#include "model/atomic_file.h"
#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using namespace gate;

// What a reader of the XML sees: for each case its outcome element, "" when it passed.
struct Shown {
  std::string element, type, message, text;
};
std::map<std::string, Shown> read_junit(const fs::path& file) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_file(file.c_str());
  EXPECT_TRUE(parsed) << parsed.description();
  std::map<std::string, Shown> cases;
  int failures = 0, errors = 0;
  const pugi::xml_node suite = document.child("testsuites").child("testsuite");
  for (const pugi::xml_node one : suite.children("testcase")) {
    const std::string name = one.attribute("name").value();
    EXPECT_FALSE(name.empty());
    EXPECT_FALSE(std::string(one.attribute("file").value()).starts_with("/"));
    int outcomes = 0;
    Shown shown;
    for (const pugi::xml_node child : one.children()) {
      if (std::string(child.name()) == "properties") continue;
      ++outcomes;
      shown = {child.name(), child.attribute("type").value(), child.attribute("message").value(),
               child.child_value()};
      EXPECT_FALSE(shown.type.empty()) << name;
      EXPECT_FALSE(shown.message.empty()) << name;
      EXPECT_FALSE(shown.text.empty()) << name;
    }
    EXPECT_LE(outcomes, 1) << name;
    failures += shown.element == "failure";
    errors += shown.element == "error";
    EXPECT_TRUE(cases.emplace(name, shown).second) << name << " twice";
  }
  for (const pugi::xml_node node : {document.child("testsuites"), suite}) {
    EXPECT_EQ(node.attribute("tests").as_int(), int(cases.size()));
    EXPECT_EQ(node.attribute("failures").as_int(), failures);
    EXPECT_EQ(node.attribute("errors").as_int(), errors);
    EXPECT_EQ(std::string(node.attribute("skipped").value()), "0");
  }
  return cases;
}

// ---- The misbehaviours, one row each.

struct Row {
  const char* name;  // gate and misbehaviour
  std::vector<std::string> environment;
  std::vector<const char*> required;  // without "<name>/"
  const char* red_case;               // as the XML names it: the case that has to explain
  const char *element, *type, *text;  // text: a part of message or content
  const char* summary;                // the last line, after "gate <name>: "
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
std::string row_name(const testing::TestParamInfo<Row>& info) { return info.param.name; }

std::string required_text(const Row& row) {
  std::string text;
  for (const char* name : row.required) text += fmt::format("{}/{}\n", row.name, name);
  return text;
}

struct FalseGreens : testing::TestWithParam<Row> {};

TEST_P(FalseGreens, end_red) {
  const Row& row = GetParam();
  GateRun gate;
  gate.run_gate(row.name, required_text(row), row.environment);
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  EXPECT_EQ(gate.last_line(), fmt::format("gate {}: {}", row.name, row.summary)) << gate.output;
  EXPECT_EQ(gate.receipt()["verdict"], "not closed");
  const auto report = nlohmann::json::parse(read_file(gate.evidence() / "report.json"));
  EXPECT_EQ(report["verdict"], "not closed");
  EXPECT_EQ(report["summary"], gate.last_line());
  const auto ctrf = nlohmann::json::parse(read_file(gate.evidence() / "ctrf.json"));
  EXPECT_GT(ctrf["results"]["summary"]["failed"], 0);

  const auto cases = read_junit(gate.evidence() / "junit.xml");
  EXPECT_EQ(ctrf["results"]["summary"]["tests"], cases.size());
  ASSERT_TRUE(cases.contains(row.red_case)) << read_file(gate.evidence() / "junit.xml");
  const Shown& shown = cases.at(row.red_case);
  EXPECT_EQ(shown.element, row.element) << shown.text;
  EXPECT_EQ(shown.type, row.type) << shown.text;
  EXPECT_NE((shown.message + "\n" + shown.text).find(row.text), std::string::npos) << shown.text;
  for (const char* name : row.required)
    EXPECT_TRUE(cases.contains(std::string(name).substr(std::string(name).find('.') + 1))) << name;
}

TEST_P(FalseGreens, stay_red_when_verified_later) {
  const Row& row = GetParam();
  GateRun gate;
  gate.run_gate(row.name, required_text(row), row.environment);
  gate.verify();
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  EXPECT_EQ(gate.last_line(), fmt::format("gate {}: {}", row.name, row.summary)) << gate.output;
}

const Row kRows[] = {
    {"suite_setup_fails",
     {},
     {"SuiteSetup.never_runs/row_1", "SuiteSetup.never_runs/row_2"},
     "outside_of_cases",
     "error",
     "gate",
     "no weights",
     "0 of 2 required cases ran, 0 passed, 2 skipped: not closed"},
    {"suite_teardown_fails",
     {},
     {"SuiteTearDown.passes/row_1"},
     "outside_of_cases",
     "error",
     "gate",
     "leaked a handle",
     "1 of 1 required cases ran, 1 passed: not closed"},
    {"environment_fails",
     {"H3_FALSE_GREEN=environment_fails"},
     {"Honest.passes/row_1"},
     "outside_of_cases",
     "error",
     "gate",
     "no driver",
     "0 of 1 required cases ran, 0 passed, 1 skipped: not closed"},
    {"environment_skips",
     {"H3_FALSE_GREEN=environment_skips"},
     {"Honest.passes/row_1"},
     "outside_of_cases",
     "error",
     "gate",
     "skip outside of a case",
     "0 of 1 required cases ran, 0 passed, 1 missing: not closed"},
    {"prints_skipped",
     {},
     {"PrintsSkipped.while_failing/row_1"},
     "while_failing/row_1",
     "failure",
     "claim",
     "wrong bits",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"no_such_suite",
     {},
     {"Renamed.passes/row_1"},
     "process",
     "error",
     "gate",
     "nothing ran",
     "0 of 1 required cases ran, 0 passed, 1 missing: not closed"},
    {"shards",
     {"H3_FALSE_GREEN=shards"},
     {"Honest.passes/row_1", "Honest.passes/row_2"},
     "passes/row_1",
     "error",
     "not-run",
     "missing",
     "1 of 2 required cases ran, 1 passed, 1 missing: not closed"},
    {"honest",
     {"GTEST_TOTAL_SHARDS=2", "GTEST_SHARD_INDEX=0"},
     {"Honest.passes/row_1"},
     "refused",
     "error",
     "gate",
     "a gate always runs whole",
     "0 of 1 required cases ran, 0 passed, 1 missing: not closed"},
    {"repeats",
     {"H3_FALSE_GREEN=repeats"},
     {"Honest.passes/row_1", "Honest.passes/row_2"},
     "passes/row_2",
     "failure",
     "doubled",
     "ran 2 times",
     "0 of 2 required cases ran, 0 passed, 2 failed: not closed"},
    {"fails_then_skips",
     {},
     {"FailsThenSkips.both/row_1"},
     "both/row_1",
     "failure",
     "claim",
     "wrong bits",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"skips_for_no_reason",
     {},
     {"SkipsForNoReason.silently/row_1"},
     "silently/row_1",
     "error",
     "not-run",
     "skipped: not today",
     "0 of 1 required cases ran, 0 passed, 1 skipped: not closed"},
    {"skips_for_a_reason",
     {},
     {"SkipsForAReason.in_set_up/row_1", "SkipsForAReason.in_set_up/row_2"},
     "in_set_up/row_2",
     "error",
     "not-run",
     "skipped: no_device",
     "0 of 2 required cases ran, 0 passed, 2 skipped: not closed"},
    {"aborts",
     {},
     {"Aborts.on_row_2/row_1", "Aborts.on_row_2/row_2", "Aborts.on_row_2/row_3"},
     "on_row_2/row_2",
     "error",
     "not-run",
     "crash: signal 6",
     "1 of 3 required cases ran, 1 passed, 2 missing: not closed"},
    {"exits_with_zero",
     {},
     {"ExitsWithZero.on_row_2/row_1", "ExitsWithZero.on_row_2/row_2"},
     "on_row_2/row_2",
     "error",
     "not-run",
     "crash: the process left with exit code 0",
     "1 of 2 required cases ran, 1 passed, 1 missing: not closed"},
    {"exits_between_cases",
     {},
     {"LeavesEarly.passes/row_1"},
     "process",
     "error",
     "gate",
     "left with exit code 0 before its end",
     "1 of 1 required cases ran, 1 passed: not closed"},
    {"leaves_with_7",
     {},
     {"LeavesWith7.after_passing/row_1"},
     "process",
     "error",
     "gate",
     "exit code 7",
     "1 of 1 required cases ran, 1 passed: not closed"},
    {"hangs",
     {},
     {"Hangs.on_row_2/row_1", "Hangs.on_row_2/row_2", "Hangs.on_row_2/row_3"},
     "on_row_2/row_2",
     "error",
     "not-run",
     "timeout: the process was ended after",
     "1 of 3 required cases ran, 1 passed, 2 missing: not closed"},
    {"hangs_deaf",
     {},
     {"HangsDeaf.to_being_asked/row_1"},
     "to_being_asked/row_1",
     "error",
     "not-run",
     "timeout",
     "0 of 1 required cases ran, 0 passed, 1 missing: not closed"},
    {"control_characters",
     {},
     {"ControlCharacters.in_the_message/row_1"},
     "in_the_message/row_1",
     "failure",
     "claim",
     "escape \\x1B[31m, broken \\xFF\\xC0\\x80 bytes, \\uFFFF, ]]> & <b>",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"nan_metric",
     {},
     {"NanMetric.that_never_exceeds/row_1"},
     "that_never_exceeds/row_1",
     "failure",
     "metric",
     "measured=nan is not a finite number",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"ignored_limit",
     {},
     {"IgnoredLimit.is_exceeded/row_1"},
     "is_exceeded/row_1",
     "failure",
     "metric",
     "exceeds the limit",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"wrong_bits",
     {},
     {"WrongBits.are_reported/row_1"},
     "are_reported/row_1",
     "failure",
     "bitwise",
     "first difference at [12, 34] (element 1234): expected 1 (0x3f80), got 1.5 (0x3fc0)",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
    {"beyond_bound",
     {},
     {"BeyondBound.is_reported/row_1"},
     "is_reported/row_1",
     "failure",
     "max_abs",
     "max_abs 0.5 exceeds the limit 0.25",
     "1 of 1 required cases ran, 0 passed, 1 failed: not closed"},
};
INSTANTIATE_TEST_SUITE_P(host, FalseGreens, testing::ValuesIn(kRows), row_name);

// ---- The list of required cases against an honest run.

struct ListRow {
  const char* name;
  std::string required;
  const char* red_case;  // "" when the gate closes
  const char* text;
};
void PrintTo(const ListRow& row, std::ostream* out) { *out << row.name; }
std::string list_name(const testing::TestParamInfo<ListRow>& info) { return info.param.name; }

struct RequiredCases : testing::TestWithParam<ListRow> {};

TEST_P(RequiredCases, decide) {
  const ListRow& row = GetParam();
  GateRun gate;
  gate.run_gate("honest", row.required);
  const auto cases = read_junit(gate.evidence() / "junit.xml");
  if (*row.red_case == '\0') {
    EXPECT_EQ(gate.end.exit_code, 0) << gate.output;
    EXPECT_EQ(gate.last_line(), "gate honest: 3 of 3 required cases ran, 3 passed");
    EXPECT_EQ(gate.receipt()["verdict"], "closed");
    return;
  }
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  ASSERT_TRUE(cases.contains(row.red_case)) << gate.output;
  EXPECT_NE(cases.at(row.red_case).text.find(row.text), std::string::npos) << cases.at(row.red_case).text;
}

const ListRow kLists[] = {
    {"are_the_cases_that_ran", kHonest, "", ""},
    {"may_have_comments", "# why\n" + kHonest, "", ""},
    {"one_is_missing", kHonest + "honest/Honest.passes/row_4\n", "passes/row_4", "regenerate the list"},
    {"one_is_unlisted", kHonest.substr(0, kHonest.find('\n') + 1), "passes/row_3", "regenerate the list"},
    {"one_is_listed_twice", kHonest + "honest/Honest.passes/row_1\n", "required_list", "listed twice"},
};
INSTANTIATE_TEST_SUITE_P(host, RequiredCases, testing::ValuesIn(kLists), list_name);

// ---- Evidence of an earlier run.

struct StaleRow {
  const char* name;
  const char* binary;  // of the second run
  std::vector<std::string> environment;
};
void PrintTo(const StaleRow& row, std::ostream* out) { *out << row.name; }
std::string stale_name(const testing::TestParamInfo<StaleRow>& info) { return info.param.name; }

struct StaleEvidence : testing::TestWithParam<StaleRow> {};

TEST_P(StaleEvidence, of_an_earlier_run_is_gone) {
  GateRun gate;
  gate.run_gate("honest", kHonest);
  ASSERT_EQ(gate.end.exit_code, 0) << gate.output;
  gate.run_gate("honest", kHonest, GetParam().environment, GetParam().binary);
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  EXPECT_EQ(gate.receipt()["verdict"], "not closed");
  EXPECT_EQ(gate.receipt()["passed"], 0);
  const auto cases = read_junit(gate.evidence() / "junit.xml");
  EXPECT_EQ(cases.at("passes/row_1").element, "error");
}

const StaleRow kStale[] = {
    {"binary_is_missing", "h3_no_such_binary", {}},
    {"binary_cannot_start", "CMakeCache.txt", {}},
    {"environment_is_refused", "h3_false_greens", {"GTEST_REPEAT=2"}},
};
INSTANTIATE_TEST_SUITE_P(host, StaleEvidence, testing::ValuesIn(kStale), stale_name);

// ---- Skips: never closed, and exit code 77 only where somebody asked for it.

struct SkipRow {
  const char* name;
  const char* gate;
  const char* required;
  std::vector<std::string> environment;
  int exit_code;
};
void PrintTo(const SkipRow& row, std::ostream* out) { *out << row.name; }
std::string skip_name(const testing::TestParamInfo<SkipRow>& info) { return info.param.name; }

struct Skips : testing::TestWithParam<SkipRow> {};

TEST_P(Skips, never_close_a_gate) {
  const SkipRow& row = GetParam();
  GateRun gate;
  gate.run_gate(row.gate, row.required, row.environment);
  EXPECT_EQ(gate.end.exit_code, row.exit_code) << gate.output;
  EXPECT_EQ(gate.receipt()["verdict"], "not closed");
}

const char* const kSkipped =
    "skips_for_a_reason/SkipsForAReason.in_set_up/row_1\n"
    "skips_for_a_reason/SkipsForAReason.in_set_up/row_2\n";
const SkipRow kSkips[] = {
    {"by_default", "skips_for_a_reason", kSkipped, {}, 1},
    {"allowed_on_this_machine", "skips_for_a_reason", kSkipped, {"H3_ALLOW_SKIP=1"}, 77},
    {"without_an_allowed_reason",
     "skips_for_no_reason",
     "skips_for_no_reason/SkipsForNoReason.silently/row_1\n",
     {"H3_ALLOW_SKIP=1"},
     1},
    {"failing_before_it",
     "fails_then_skips",
     "fails_then_skips/FailsThenSkips.both/row_1\n",
     {"H3_ALLOW_SKIP=1"},
     1},
};
INSTANTIATE_TEST_SUITE_P(host, Skips, testing::ValuesIn(kSkips), skip_name);

// ---- CTest: labels, presets, registration.

struct LabelRow {
  const char* name;
  std::vector<std::string> selection;
  bool green;
};
void PrintTo(const LabelRow& row, std::ostream* out) { *out << row.name; }
std::string label_name(const testing::TestParamInfo<LabelRow>& info) { return info.param.name; }

struct Labels : testing::TestWithParam<LabelRow> {};

TEST_P(Labels, select_or_fail) {
  const Scratch scratch;
  write_file(scratch.path("CTestTestfile.cmake"),
             "add_test(block0 true)\nset_tests_properties(block0 PROPERTIES LABELS block0)\n");
  std::vector<std::string> command = {"ctest", "--test-dir", scratch.folder()};
  command.insert(command.end(), GetParam().selection.begin(), GetParam().selection.end());
  const ProcessEnd end =
      run_to_end({.arguments = command, .output_file = scratch.path("log"), .time_limit = 60});
  EXPECT_EQ(end.exit_code == 0, GetParam().green) << read_file(scratch.path("log"));
}

const LabelRow kLabels[] = {
    {"exact", {"-L", "^block0$", "--no-tests=error"}, true},
    {"typo", {"-L", "^blok0$", "--no-tests=error"}, false},
    {"longer_name", {"-L", "^block01$", "--no-tests=error"}, false},
};
INSTANTIATE_TEST_SUITE_P(host, Labels, testing::ValuesIn(kLabels), label_name);

// ---- CDash: what ctest/cdash.cmake would send.

struct CdashScript : testing::TestWithParam<LabelRow> {};

TEST_P(CdashScript, sends_the_numbers_of_a_gate) {
  GateRun gate;
  write_file(gate.scratch.path("required.txt"), kHonest);
  const std::string program = build_folder() / "h3_gate", binary = build_folder() / "h3_false_greens";
  write_file(gate.scratch.path("CTestTestfile.cmake"),
             fmt::format("add_test(honest {} --gate honest --binary {} --required {} --evidence {})\n"
                         "set_tests_properties(honest PROPERTIES LABELS honest)\n",
                         program, binary, gate.scratch.path("required.txt"), gate.evidence().string()));
  std::vector<std::string> command = {"ctest", "-DBUILD=" + gate.scratch.folder()};
  command.insert(command.end(), GetParam().selection.begin(), GetParam().selection.end());
  command.insert(command.end(), {"-S", (data_root() / "ctest/cdash.cmake").string()});
  const ProcessEnd end =
      run_to_end({.arguments = command, .output_file = gate.scratch.path("log"), .time_limit = 60});
  EXPECT_EQ(end.exit_code == 0, GetParam().green) << read_file(gate.scratch.path("log"));
  if (!GetParam().green) return;
  std::map<std::string, std::string> numbers;
  for (const auto& entry : fs::recursive_directory_iterator(gate.scratch.path("Testing"))) {
    if (entry.path().filename() != "Test.xml") continue;
    pugi::xml_document document;
    ASSERT_TRUE(document.load_file(entry.path().c_str()));
    EXPECT_STREQ(document.child("Site").attribute("Name").value(), "node");
    for (const auto& found : document.select_nodes("//NamedMeasurement[@type='numeric/double']"))
      numbers[found.node().attribute("name").value()] = found.node().child_value("Value");
  }
  EXPECT_EQ(numbers["h3.honest.required"], "3");
  EXPECT_EQ(numbers["h3.honest.passed"], "3");
  EXPECT_EQ(numbers["h3.honest.largest_share_of_a_limit"], "0.5");
  EXPECT_GT(std::atof(numbers["h3.honest.seconds"].c_str()), 0);
}

const LabelRow kCdash[] = {
    {"closed_gate", {"-DLABEL=^honest$"}, true},
    {"no_such_label", {"-DLABEL=^honset$"}, false},
    {"no_label", {}, false},
};
INSTANTIATE_TEST_SUITE_P(host, CdashScript, testing::ValuesIn(kCdash), label_name);

struct GateRow {
  const char* name;
};
void PrintTo(const GateRow& row, std::ostream* out) { *out << row.name; }
std::string gate_name(const testing::TestParamInfo<GateRow>& info) { return info.param.name; }

struct Registration : testing::TestWithParam<GateRow> {};

TEST_P(Registration, has_no_way_around_the_verdict) {
  const auto listing = nlohmann::json::parse(
      output_of({"ctest", "--test-dir", build_folder(), "--show-only=json-v1"}), nullptr, false);
  ASSERT_TRUE(listing.is_object());
  const std::string gate = GetParam().name;
  int found = 0;
  for (const auto& test : listing["tests"]) {
    if (test["name"] != gate) continue;
    ++found;
    std::map<std::string, nlohmann::json> properties;
    for (const auto& property : test["properties"]) properties[property["name"]] = property["value"];
    EXPECT_EQ(properties["LABELS"], nlohmann::json::array({gate}));
    EXPECT_TRUE(properties.contains("TIMEOUT"));
    EXPECT_EQ(properties["RESOURCE_LOCK"], nlohmann::json::array({"cores"}));
    for (const char* weakened :
         {"SKIP_REGULAR_EXPRESSION", "PASS_REGULAR_EXPRESSION", "WILL_FAIL", "DISABLED"})
      EXPECT_FALSE(properties.contains(weakened)) << weakened;
  }
  EXPECT_EQ(found, 1);
}

TEST_P(Registration, has_a_preset_that_fails_when_nothing_is_selected) {
  const auto presets = nlohmann::json::parse(read_file((data_root() / "CMakePresets.json").string()));
  std::map<std::string, nlohmann::json> named;
  for (const auto& preset : presets["testPresets"]) named[preset["name"]] = preset;
  const std::string gate = GetParam().name;
  ASSERT_TRUE(named.contains(gate));
  EXPECT_EQ(named[gate]["filter"]["include"]["label"], "^" + gate + "$");
  EXPECT_EQ(named[gate]["inherits"], "gate");
  EXPECT_EQ(named["gate"]["execution"]["noTestsAction"], "error");
}

constexpr GateRow kGates[] = {{"host"}, {"rows"}, {"block0"}};
INSTANTIATE_TEST_SUITE_P(host, Registration, testing::ValuesIn(kGates), gate_name);

}  // namespace
}  // namespace h3
