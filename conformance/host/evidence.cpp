// An evidence folder: sealed whatever happened, and refused with one line after any change.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <ostream>

#include "conformance/errors.h"
#include "conformance/host/gate_run.h"
#include "ctest/evidence/derived.h"
#include "ctest/evidence/folder.h"
#include "ctest/evidence/publish.h"
#include "ctest/evidence/seal.h"
#include "ctest/evidence/verify.h"
#include "fixtures/path.h"
#include "harness/compare/compare.h"
#include "harness/compare/provider_record.h"
#include "harness/replay/twin_digests.h"
#include "harness/report/ledger.h"
#include "model/digest.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using namespace gate;
using Json = nlohmann::ordered_json;

// A closed gate's folder, run once; tests change copies of it.
const fs::path& honest_evidence() {
  static GateRun run;
  static const fs::path folder = [] {
    run.run_gate("honest", kHonest);
    require(run.end.exit_code == 0, "the honest gate is not closed: {}", run.output);
    return run.evidence();
  }();
  return folder;
}

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

void change(const fs::path& file, const std::function<void(std::string&)>& edit) {
  std::string text = read_file(file);
  edit(text);
  write_file(file, text);
}

void replace_first(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  require(at != std::string::npos, "nothing to replace: {}", from);
  text.replace(at, from.size(), to);
}

// What somebody who wants to cheat can do, too: a new seal around whatever is there.
void seal_again(const fs::path& folder) {
  break_seal(folder);
  write_seal(folder);
}

// A ledger whose chain is made anew after a change, everything derived from it, and a new seal.
void forge(const fs::path& folder, const std::function<void(std::vector<Json>&)>& edit) {
  std::vector<Json> events = read_ledger(folder / kLedgerFile).events;
  edit(events);
  write_file(folder / kLedgerFile, ledger_text(events));
  publish(folder, {});
}

// ---- Any change is refused, with one line that names the file.

struct TamperRow {
  const char* name;
  void (*tamper)(const fs::path& folder);
  const char* refusal;                      // how the one line begins
  std::vector<std::string> arguments = {};  // of verify
};
void PrintTo(const TamperRow& row, std::ostream* out) { *out << row.name; }
std::string tamper_name(const testing::TestParamInfo<TamperRow>& info) { return info.param.name; }

struct TamperedEvidence : testing::TestWithParam<TamperRow> {};

TEST_P(TamperedEvidence, is_refused_naming_what) {
  GateRun gate;
  copy_folder(honest_evidence(), gate.evidence());
  gate.verify();
  ASSERT_EQ(gate.end.exit_code, 0) << "the untouched twin: " << gate.output;

  GetParam().tamper(gate.evidence());
  std::vector<std::string> arguments = GetParam().arguments;
  for (auto& one : arguments)  // files beside the folder
    if (fs::exists(gate.scratch.path(one))) one = gate.scratch.path(one);
  gate.verify(arguments);
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  const std::string expected = std::string("refused: ") + GetParam().refusal;
  EXPECT_EQ(gate.output.substr(0, expected.size()), expected);
  EXPECT_EQ(gate.output.find("refused: ", 1), std::string::npos) << "more than one reason: " << gate.output;
}

// Flips a bit in the middle.
template <const char* const& File>
void flip(const fs::path& folder) {
  change(folder / File, [](std::string& text) { text[text.size() / 2] ^= 1; });
}
template <const char* const& File>
void truncate(const fs::path& folder) {
  change(folder / File, [](std::string& text) { text.pop_back(); });
}
template <const char* const& File>
void remove_file(const fs::path& folder) {
  fs::remove(folder / File);
}

constexpr const char *const kLedger = kLedgerFile, *const kRequired = kRequiredFile,
                            *const kOutput = kOutputFile, *const kJunit = kJunitFile,
                            *const kReport = kReportFile, *const kCtrf = kCtrfFile,
                            *const kReceipt = kReceiptFile, *const kRedaction = kRedactionFile,
                            *const kSums = kSumsFile, *const kComplete = kCompleteFile;

const TamperRow kTampers[] = {
    // a byte
    {"bit_of_ledger", flip<kLedger>, "ledger.jsonl: its SHA-256 is not that in SHA256SUMS"},
    {"bit_of_list", flip<kRequired>, "required.txt: its SHA-256"},
    {"bit_of_output", flip<kOutput>, "output.log: its SHA-256"},
    {"bit_of_junit", flip<kJunit>, "junit.xml: its SHA-256"},
    {"bit_of_report", flip<kReport>, "report.json: its SHA-256"},
    {"bit_of_ctrf", flip<kCtrf>, "ctrf.json: its SHA-256"},
    {"bit_of_receipt", flip<kReceipt>, "receipt.json: its SHA-256"},
    {"bit_of_redaction", flip<kRedaction>, "redaction.json: its SHA-256"},
    {"bit_of_sums", flip<kSums>, "COMPLETE: is not the hash of SHA256SUMS"},
    {"bit_of_complete", flip<kComplete>, "COMPLETE: is not the hash of SHA256SUMS"},
    {"last_byte_of_ledger", truncate<kLedger>, "ledger.jsonl: its SHA-256"},
    {"last_byte_of_sums", truncate<kSums>, "COMPLETE: is not the hash of SHA256SUMS"},
    // a file
    {"lost_ledger", remove_file<kLedger>, "ledger.jsonl: is missing"},
    {"lost_output", remove_file<kOutput>, "output.log: is missing"},
    {"lost_sums", remove_file<kSums>, "SHA256SUMS: is missing"},
    {"lost_complete", remove_file<kComplete>, "COMPLETE: is missing, the folder is not sealed"},
    {"added_file", [](const fs::path& folder) { write_file(folder / "notes.txt", "all fine"); },
     "notes.txt: does not belong in an evidence folder"},
    {"added_folder", [](const fs::path& folder) { fs::create_directory(folder / "run"); }, "run: is no file"},
    {"link_to_a_copy",
     [](const fs::path& folder) {
       fs::rename(folder / kReport, folder.parent_path() / "elsewhere.json");
       fs::create_symlink("../elsewhere.json", folder / kReport);
     },
     "report.json: is a link"},
    {"renamed", [](const fs::path& folder) { fs::rename(folder / kCtrf, folder / "ctrf_1.json"); },
     "ctrf_1.json: does not belong"},
    {"list_without_a_file",
     [](const fs::path& folder) {
       change(folder / kSums, [](std::string& text) { text.erase(0, text.find('\n') + 1); });
       write_file(folder / kComplete, sha256_hex(read_file(folder / kSums)) + "  SHA256SUMS\n");
     },
     "ctrf.json: is not listed in SHA256SUMS"},
    {"list_with_a_path",
     [](const fs::path& folder) {
       change(folder / kSums, [](std::string& text) { text += std::string(64, 'a') + "  ../a\n"; });
       write_file(folder / kComplete, sha256_hex(read_file(folder / kSums)) + "  SHA256SUMS\n");
     },
     "SHA256SUMS: lists '../a', which does not belong"},
    {"list_that_paints",
     [](const fs::path& folder) {
       change(folder / kSums, [](std::string& text) { text += std::string(64, 'a') + "  \x1b[32m\n"; });
       write_file(folder / kComplete, sha256_hex(read_file(folder / kSums)) + "  SHA256SUMS\n");
     },
     "SHA256SUMS: lists '\\x1B[32m', which does not belong"},
    {"file_of_another_run",
     [](const fs::path& folder) {
       GateRun other;
       other.run_gate("honest", kHonest);
       fs::copy_file(other.evidence() / kLedger, folder / kLedger, fs::copy_options::overwrite_existing);
     },
     "ledger.jsonl: its SHA-256"},
    // and sealed again
    {"measured_value",
     [](const fs::path& folder) {
       change(folder / kLedger, [](std::string& text) { replace_first(text, "0.25", "0.15"); });
       seal_again(folder);
     },
     "ledger.jsonl: line 5: the hash of the line before it does not match"},
    {"line_dropped",
     [](const fs::path& folder) {
       change(folder / kLedger, [](std::string& t) {
         t.erase(t.find('\n') + 1, t.find('\n', t.find('\n') + 1) - t.find('\n'));
       });
       seal_again(folder);
     },
     "ledger.jsonl: line 2: expected seq 1"},
    {"last_line_dropped",
     [](const fs::path& folder) {
       change(folder / kLedger, [](std::string& t) { t.erase(t.rfind('\n', t.size() - 2) + 1); });
       seal_again(folder);
     },
     "ledger.jsonl: it does not come to an end: no process_end"},
    {"last_line_torn",
     [](const fs::path& folder) {
       truncate<kLedger>(folder);
       seal_again(folder);
     },
     "ledger.jsonl: the last line is torn"},
    {"shorter_list",
     [](const fs::path& folder) {
       change(folder / kRequired, [](std::string& t) { t.erase(0, t.find('\n') + 1); });
       seal_again(folder);
     },
     "required.txt: is not the list of this run"},
    {"prettier_junit",
     [](const fs::path& folder) {
       change(folder / kJunit, [](std::string& t) { replace_first(t, "errors=\"0\"", "errors=\"\""); });
       seal_again(folder);
     },
     "junit.xml: is not what the ledger says, from line 2 on"},
    {"prettier_report",
     [](const fs::path& folder) {
       change(folder / kReport,
              [](std::string& t) { replace_first(t, "\"measured\": 0.25", "\"measured\": 0.05"); });
       seal_again(folder);
     },
     "report.json: is not what the ledger says"},
    {"prettier_ctrf",
     [](const fs::path& folder) {
       change(folder / kCtrf, [](std::string& t) { replace_first(t, "\"passed\": 3", "\"passed\": 4"); });
       seal_again(folder);
     },
     "ctrf.json: is not what the ledger says"},
    {"another_machine",
     [](const fs::path& folder) {
       change(folder / kReceipt, [](std::string& t) { replace_first(t, "\"cores\": ", "\"cores\": 9"); });
       seal_again(folder);
     },
     "receipt.json: is not what the ledger says"},
    {"denied_redaction",
     [](const fs::path& folder) {
       change(folder / kOutput, [](std::string& t) { t += "[path-1]\n"; });
       seal_again(folder);
     },
     "redaction.json: is not what the ledger says"},
    {"path_in_the_output",
     [](const fs::path& folder) {
       change(folder / kOutput, [](std::string& t) { t.insert(0, "see /home/somebody/notes\n"); });
       seal_again(folder);
     },
     "output.log: an absolute path at byte 4"},
    // and the ledger's chain made anew
    {"unlisted_field",
     [](const fs::path& folder) {
       std::vector<Json> events = read_ledger(folder / kLedger).events;
       events[2]["hostname"] = "somewhere";
       write_file(folder / kLedger, ledger_text(events));
       for (const auto& [name, bytes] : derive(folder).files) write_file(folder / name, bytes);
       seal_again(folder);
     },
     "ledger.jsonl: line 3: field case_begin.hostname is not one of the ledger's"},
    // whole in itself, but not what was asked for
    {"of_another_gate",
     [](const fs::path&) {},
     "ledger.jsonl: is of gate honest, expected block0",
     {"--gate", "block0"}},
    {"of_another_list",
     [](const fs::path& folder) {
       write_file(folder.parent_path() / "frozen.txt", kHonest + "honest/A.b/c\n");
     },
     "required.txt: differs from",
     {"--required", "frozen.txt"}},
    {"unsigned",
     [](const fs::path& folder) { write_file(folder.parent_path() / "signers", "a ssh-ed25519 AAAA\n"); },
     "SHA256SUMS.sig: not signed",
     {"--signers", "signers"}},
};
INSTANTIATE_TEST_SUITE_P(host, TamperedEvidence, testing::ValuesIn(kTampers), tamper_name);

// ---- Forged evidence that is whole in itself: the numbers decide, and the CPU twin.

struct ForgeryRow {
  const char* name;
  void (*edit)(std::vector<Json>& events);
  const char* said;
};
void PrintTo(const ForgeryRow& row, std::ostream* out) { *out << row.name; }
std::string forgery_name(const testing::TestParamInfo<ForgeryRow>& info) { return info.param.name; }

struct ForgedEvidence : testing::TestWithParam<ForgeryRow> {};

TEST_P(ForgedEvidence, does_not_close_the_gate) {
  GateRun gate;
  copy_folder(honest_evidence(), gate.evidence());
  forge(gate.evidence(), GetParam().edit);
  gate.verify();
  EXPECT_EQ(gate.end.exit_code, 1) << gate.output;
  EXPECT_NE(gate.output.find(GetParam().said), std::string::npos) << gate.output;
}

Json& case_end(std::vector<Json>& events) {
  for (Json& event : events)
    if (event["event"] == "case_end") return event;
  fail("no case_end");
}

const ForgeryRow kForgeries[] = {
    {"measured_beyond_its_limit",
     [](std::vector<Json>& e) { case_end(e)["properties"]["measured"] = "0.75"; },
     "it passed, but measured 0.75 exceeds the limit 0.5"},
    {"another_measure_beyond_its_limit",
     [](std::vector<Json>& e) {
       case_end(e)["properties"]["video_limit"] = "1";
       case_end(e)["properties"]["video_measured"] = "1.5";
     },
     "it passed, but video_measured 1.5 exceeds the limit 1"},
    {"limit_that_is_no_number", [](std::vector<Json>& e) { case_end(e)["properties"]["limit"] = "inf"; },
     "limit=inf is not a finite number"},
    {"case_left_out",
     [](std::vector<Json>& e) {
       const std::string name = case_end(e)["case"];
       std::erase_if(e, [&](const Json& event) { return event.value("case", "") == name; });
     },
     "2 of 3 required cases ran"},
    {"failure_beside_a_pass",
     [](std::vector<Json>& e) {
       const Json part = {{"event", "part"},   {"case", case_end(e)["case"]},
                          {"kind", "failure"}, {"file", "a.cpp"},
                          {"line", 1},         {"text", "no"}};
       const auto at =
           std::find_if(e.begin(), e.end(), [](const Json& event) { return event["event"] == "case_end"; });
       e.insert(at, part);
     },
     "3 of 3 required cases ran, 2 passed, 1 failed: not closed"},
    {"exit_code", [](std::vector<Json>& e) { e.back()["exit_code"] = 1; },
     "the process left with exit code 1"},
};
INSTANTIATE_TEST_SUITE_P(host, ForgedEvidence, testing::ValuesIn(kForgeries), forgery_name);

// ---- Digests and limits of block 0: held against the provider's record, and derived again.

struct Block0Row {
  const char* name;
  void (*edit)(std::map<std::string, Json>& properties);  // of the cases, by row
  std::vector<std::string> arguments;
  int exit_code;
  const char* said;
};
void PrintTo(const Block0Row& row, std::ostream* out) { *out << row.name; }
std::string block0_name(const testing::TestParamInfo<Block0Row>& info) { return info.param.name; }

struct Block0Evidence : testing::TestWithParam<Block0Row> {};

// A few cases of gate block0 as its binary records them: three nodes of tiny, with the twin's digests, and of
// small one node and one gradient.
std::map<std::string, Json> block0_properties() {
  static const auto digests = twin_digests("tiny", {"adaln_projection", "norm1", "q_proj"});
  std::map<std::string, Json> properties;
  for (const auto& [node, digest] : digests)
    properties["BlockNode.equals_provider/tiny_cuda_" + node] = {
        {"layout", "tiny"}, {"node", node}, {"xxh3_128", digest}};
  const auto nodes = ProviderRecord::load(fixture_path("block0.h5"), "small");
  properties["BlockNode.equals_provider/small_cuda_norm1"] = {
      {"layout", "small"}, {"node", "norm1"}, {"xxh3_128", nodes->node("norm1").xxh3_128}};
  const auto gradients = ProviderGradients::load(fixture_path("block0_backward.h5"), "small");
  properties["BoundedGradient.stays_within_its_bound_of_the_golden/small_cuda_norm2"] = {
      {"layout", "small"},
      {"gradient", "norm2"},
      {"metric", "relative_l2"},
      {"measured", "0.001"},
      {"limit", fmt::format("{:.9g}", *gradients->gradient("norm2").bound().relative_l2)}};
  return properties;
}

void write_block0(const fs::path& folder, const std::map<std::string, Json>& properties) {
  fs::create_directories(folder);
  std::string list;
  std::vector<Json> events = {
      Json({{"event", "run_begin"}, {"filter", "block0/*"}, {"selected", properties.size()}})};
  for (const auto& [row, recorded] : properties) {
    const std::string name = "block0/" + row;
    list += name + "\n";
    events.push_back({{"event", "case_begin"}, {"case", name}, {"file", "block.cpp"}, {"line", 1}});
    events.push_back({{"event", "case_end"},
                      {"case", name},
                      {"outcome", "passed"},
                      {"seconds", 0.0},
                      {"properties", recorded}});
  }
  events.push_back({{"event", "run_end"}, {"exit_code", 0}});
  events.push_back({{"event", "process_end"},
                    {"gate", "block0"},
                    {"started", "2026-11-30T12:00:00"},
                    {"seconds", 1.0},
                    {"exit_code", 0},
                    {"signal", 0},
                    {"timed_out", false},
                    {"torn_bytes", 0},
                    {"required_sha256", sha256_hex(list)},
                    {"binary_sha256", ""}});
  write_file(folder / kRequiredFile, list);
  write_file(folder / kLedgerFile, ledger_text(events));
  publish(folder, {});
}

TEST_P(Block0Evidence, is_derived_again) {
  GateRun gate;
  auto properties = block0_properties();
  GetParam().edit(properties);
  write_block0(gate.evidence(), properties);
  gate.verify(GetParam().arguments);
  EXPECT_EQ(gate.end.exit_code, GetParam().exit_code) << gate.output;
  EXPECT_NE(gate.output.find(GetParam().said), std::string::npos) << gate.output;
}

const Block0Row kBlock0Rows[] = {
    {"honest_digests",
     [](std::map<std::string, Json>&) {},
     {"--seed", "1"},
     0,
     "3 of 3 recorded digests derived again"},
    {"honest_record",
     [](std::map<std::string, Json>&) {},
     {"--draws", "0"},
     0,
     "4 digests and 1 limits held against the provider's record: 0 differ"},
    {"one_draw",
     [](std::map<std::string, Json>&) {},
     {"--draws", "1", "--seed", "1"},
     0,
     "1 of 3 recorded digests derived again"},
    // No claim of equality to the provider: only the twin knows.
    {"forged_digest",
     [](std::map<std::string, Json>& p) {
       const auto forged = p.extract("BlockNode.equals_provider/tiny_cuda_q_proj");
       p["BlockNode.is_computed_by_its_row/tiny_cuda_q_proj"] = forged.mapped();
       p["BlockNode.is_computed_by_its_row/tiny_cuda_q_proj"]["xxh3_128"] = std::string(32, '0');
     },
     {"--seed", "1"},
     1,
     "refused: ledger.jsonl: block0/BlockNode.is_computed_by_its_row/tiny_cuda_q_proj recorded "
     "00000000000000000000000000000000"},
    {"forged_equality",
     [](std::map<std::string, Json>& p) {
       p["BlockNode.equals_provider/small_cuda_norm1"]["xxh3_128"] = std::string(32, '0');
     },
     {"--draws", "0"},
     1,
     "refused: ledger.jsonl: block0/BlockNode.equals_provider/small_cuda_norm1 has xxh3_128 "
     "00000000000000000000000000000000, the provider's record says"},
    {"no_such_node",
     [](std::map<std::string, Json>& p) {
       p["BlockNode.is_computed_by_its_row/tiny_cuda_norm3"] = {
           {"layout", "tiny"}, {"node", "norm3"}, {"xxh3_128", std::string(32, '0')}};
     },
     {"--draws", "0"},
     1,
     "refused: ledger.jsonl: provider record: no node 'norm3'"},
    {"widened_limit",
     [](std::map<std::string, Json>& p) {
       p["BoundedGradient.stays_within_its_bound_of_the_golden/small_cuda_norm2"]["limit"] = "0.9";
     },
     {"--draws", "0"},
     1,
     "small_cuda_norm2 has limit 0.9, the provider's record says"},
};
INSTANTIATE_TEST_SUITE_P(host, Block0Evidence, testing::ValuesIn(kBlock0Rows), block0_name);

// ---- Killed at any moment: sealed, or not looking sealed.

struct KillRow {
  const char* name;
  std::function<std::function<bool()>(const fs::path& folder, int moment)> when;  // kill -9 when it says so
  std::function<std::uint64_t(int moment)> largest_file;  // or the first byte beyond this much of one file
  int moments;
};
void PrintTo(const KillRow& row, std::ostream* out) { *out << row.name; }
std::string kill_name(const testing::TestParamInfo<KillRow>& info) { return info.param.name; }

struct KilledGate : testing::TestWithParam<KillRow> {};

TEST_P(KilledGate, leaves_a_sealed_folder_or_none_that_looks_sealed) {
  GateRun gate;
  int sealed = 0;
  write_file(gate.scratch.path("required.txt"), kHonest);
  for (int moment = 0; moment < GetParam().moments; ++moment) {
    const fs::path folder = gate.scratch.path(fmt::format("evidence_{}", moment));
    copy_folder(honest_evidence(), folder);  // that of an earlier run must not speak for this one
    const std::string before = read_file(folder / kCompleteFile);
    const auto end =
        run_to_end({.arguments = {build_folder() / "h3_gate", "--gate", "honest", "--binary",
                                  build_folder() / "h3_false_greens", "--required",
                                  gate.scratch.path("required.txt"), "--evidence", folder},
                    .output_file = gate.scratch.path("gate.log"),
                    .time_limit = 60,
                    .kill_when = GetParam().when ? GetParam().when(folder, moment) : nullptr,
                    .largest_file = GetParam().largest_file ? GetParam().largest_file(moment) : 0});
    const Verification found = verify(folder);
    if (looks_sealed(folder)) {
      ++sealed;
      EXPECT_EQ(found.refusals, std::vector<std::string>()) << "moment " << moment;
      if (end.clean()) {
        EXPECT_NE(read_file(folder / kCompleteFile), before) << "the earlier run's";
      }
    } else {
      EXPECT_EQ(found.refusals, std::vector<std::string>{"COMPLETE: is missing, the folder is not sealed"});
    }
  }
  EXPECT_LT(sealed, GetParam().moments) << "none of the moments was before the end";
  RecordProperty("killed", std::to_string(GetParam().moments - sealed));
}

const KillRow kKills[] = {
    // As soon as a file has its final name, in the order in which they are written, and somewhere between.
    {"when_a_file_appears",
     [](const fs::path& folder, int moment) {
       static const char* const kOrder[] = {kLedgerFile, kOutputFile,  kCtrfFile,
                                            kJunitFile,  kReceiptFile, kRedactionFile,
                                            kReportFile, kSumsFile,    kCompleteFile};
       const fs::path file = folder / kOrder[std::size_t(moment) % std::size(kOrder)];
       // The earlier run's file has to be gone first.
       auto gone = std::make_shared<bool>(false);
       return std::function<bool()>([file, gone] {
         const bool there = fs::exists(file);
         *gone = *gone || !there;
         return *gone && there;
       });
     },
     nullptr, 18},
    {"after_some_time",
     [](const fs::path&, int moment) {
       const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(5 * moment);
       return std::function<bool()>([until] { return std::chrono::steady_clock::now() >= until; });
     },
     nullptr, 24},
    {"by_its_largest_file", nullptr, [](int moment) { return std::uint64_t(1 + 500 * moment); }, 24},
};
INSTANTIATE_TEST_SUITE_P(host, KilledGate, testing::ValuesIn(kKills), kill_name);

struct InterruptedGate : testing::TestWithParam<const char*> {};

TEST_P(InterruptedGate, can_be_sealed_and_says_so) {
  GateRun gate;
  copy_folder(honest_evidence(), gate.evidence());
  gate.run("h3_evidence", {}, {"seal", gate.evidence()});
  EXPECT_EQ(gate.end.exit_code, 2) << "sealed already: " << gate.output;

  break_seal(gate.evidence());
  change(gate.evidence() / kLedgerFile, [](std::string& t) { t.resize(t.rfind('\n', t.size() - 2) - 7); });
  write_file(gate.evidence() / "report.json.123.tmp", "half");
  gate.run("h3_evidence", {}, {"seal", gate.evidence()});
  ASSERT_EQ(gate.end.exit_code, 0) << gate.output;
  gate.verify();
  EXPECT_EQ(gate.end.exit_code, 1);
  EXPECT_NE(gate.output.find("h3_gate itself did not come to its end"), std::string::npos) << gate.output;
  EXPECT_EQ(gate.output.find("refused"), std::string::npos) << gate.output;
}
INSTANTIATE_TEST_SUITE_P(host, InterruptedGate, testing::Values("in_its_last_line"),
                         [](const auto& info) { return std::string(info.param); });

// ---- A folder that holds something else is not touched.

struct ForeignFolder : testing::TestWithParam<const char*> {};

TEST_P(ForeignFolder, is_refused_before_anything_runs) {
  GateRun gate;
  fs::create_directories(gate.evidence());
  write_file(gate.evidence() / "thesis.tex", "mine");
  gate.run_gate("honest", kHonest);
  EXPECT_EQ(gate.end.exit_code, 2) << gate.output;
  EXPECT_NE(gate.output.find("thesis.tex: does not belong in an evidence folder"), std::string::npos)
      << gate.output;
  EXPECT_EQ(read_file(gate.evidence() / "thesis.tex"), "mine");
}
INSTANTIATE_TEST_SUITE_P(host, ForeignFolder, testing::Values("with_a_thesis"),
                         [](const auto& info) { return std::string(info.param); });

// ---- Signatures.

struct SignatureRow {
  const char* name;
  void (*after)(const fs::path& folder, const fs::path& key);
  const char* said;
  int exit_code;
};
void PrintTo(const SignatureRow& row, std::ostream* out) { *out << row.name; }
std::string signature_name(const testing::TestParamInfo<SignatureRow>& info) { return info.param.name; }

struct SignedEvidence : testing::TestWithParam<SignatureRow> {};

TEST_P(SignedEvidence, is_believed_while_it_is_the_signers) {
  GateRun gate;
  copy_folder(honest_evidence(), gate.evidence());
  const std::string key = gate.scratch.path("key"), other = gate.scratch.path("other");
  for (const auto& file : {key, other}) {
    output_of({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file});
    ASSERT_TRUE(fs::exists(file)) << "no ssh-keygen";
  }
  write_file(gate.scratch.path("signers"), "reviewer@example " + read_file(key + ".pub"));
  ASSERT_NE(
      output_of({"ssh-keygen", "-Y", "sign", "-n", "h3-evidence", "-f", key, gate.evidence() / kSumsFile}),
      "");
  GetParam().after(gate.evidence(), other);
  gate.verify({"--signers", gate.scratch.path("signers")});
  EXPECT_EQ(gate.end.exit_code, GetParam().exit_code) << gate.output;
  EXPECT_NE(gate.output.find(GetParam().said), std::string::npos) << gate.output;
}

const SignatureRow kSignatures[] = {
    {"untouched", [](const fs::path&, const fs::path&) {}, "signature valid: reviewer@example", 0},
    {"another_folder_under_it",
     [](const fs::path& folder, const fs::path&) {
       const std::string signature = read_file(folder / kSignatureFile);
       forge(folder, [](std::vector<Json>& e) { case_end(e)["properties"]["measured"] = "0.125"; });
       write_file(folder / kSignatureFile, signature);
     },
     "refused: SHA256SUMS.sig: signature of reviewer@example is not valid", 1},
    {"by_somebody_else",
     [](const fs::path& folder, const fs::path& other) {
       fs::remove(folder / kSignatureFile);
       output_of({"ssh-keygen", "-Y", "sign", "-n", "h3-evidence", "-f", other, folder / kSumsFile});
     },
     "refused: SHA256SUMS.sig: signature by nobody in", 1},
    {"for_another_purpose",
     [](const fs::path& folder, const fs::path& other) {
       fs::remove(folder / kSignatureFile);
       output_of(
           {"ssh-keygen", "-Y", "sign", "-n", "file", "-f", other.parent_path() / "key", folder / kSumsFile});
     },
     "is not valid", 1},
};
INSTANTIATE_TEST_SUITE_P(host, SignedEvidence, testing::ValuesIn(kSignatures), signature_name);

// ---- Evidence of machines that are not everybody's: it verifies here.

struct RecordedEvidence : testing::TestWithParam<const char*> {};

TEST_P(RecordedEvidence, verifies_without_its_machine) {
  GateRun gate;
  gate.run("h3_evidence", {},
           {"verify", (data_root() / "ctest/recorded" / GetParam()).string(), "--gate", GetParam()});
  EXPECT_EQ(gate.end.exit_code, 0) << gate.output;
}
INSTANTIATE_TEST_SUITE_P(host, RecordedEvidence,
                         testing::Values("block0_cuda", "generation_cuda", "parallel_nccl"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
