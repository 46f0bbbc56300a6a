// What leaves a machine in an evidence folder: no path, name, address or serial number of it.
#include "ctest/evidence/redaction.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "conformance/scratch.h"
#include "ctest/evidence/folder.h"
#include "ctest/evidence/publish.h"
#include "ctest/evidence/verify.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/digest.h"

namespace h3 {
namespace {

using namespace gate;
using Json = nlohmann::ordered_json;

const PrivateNames kNames = {{"host", "gpu-node-17"}, {"user", "alice"}, {"serial", "1654523001234"}};

struct TextRow {
  const char* name;
  const char *text, *redacted;
};
void PrintTo(const TextRow& row, std::ostream* out) { *out << row.name; }
std::string text_name(const testing::TestParamInfo<TextRow>& info) { return info.param.name; }

struct RedactedText : testing::TestWithParam<TextRow> {};

TEST_P(RedactedText, keeps_what_is_nobodys) {
  Redactor redactor(kNames);
  const std::string once = redactor.redacted(GetParam().text);
  EXPECT_EQ(once, GetParam().redacted);
  EXPECT_EQ(redactor.redacted(once), once) << "a second time changes nothing";
  EXPECT_EQ(first_private(once), "");
}

const TextRow kTexts[] = {
    {"path", "cannot open /home/bob/run/x: no", "cannot open [path-1]: no"},
    {"path_keeps_a_file_name", "/data/h3/fixtures/block0.h5: missing", "[path-1]/block0.h5: missing"},
    {"path_of_a_flag", "-I/opt/cuda/include -L/usr/lib", "-I[path-1] -L[path-2]"},
    {"same_path_same_token", "'/tmp/a' \"/tmp/b\" (/tmp/a)", "'[path-1]' \"[path-2]\" ([path-1])"},
    {"path_at_the_end_of_a_sentence", "in /tmp/a/b.", "in [path-1]."},
    {"root_alone", "under /tmp and /scratch", "under [path-1] and [path-2]"},
    {"relative_path", "../conformance/host/a.cpp:12 build/evidence ./run",
     "../conformance/host/a.cpp:12 build/evidence ./run"},
    {"case_name", "host/RmsNorm.matches/B0_03 and/or 5 / 3, GB/s, </b>",
     "host/RmsNorm.matches/B0_03 and/or 5 / 3, GB/s, </b>"},
    {"url", "https://example.org/a/b", "https://example.org/a/b"},
    {"host", "on gpu-node-17: out of memory", "on [host-1]: out of memory"},
    {"host_with_its_domain", "gpu-node-17.cluster.example:22", "[host-1]:22"},
    {"host_is_a_word_of_its_own", "gpu-node-171 xgpu-node-17", "gpu-node-171 xgpu-node-17"},
    {"user", "alice ran it, malice did not", "[user-1] ran it, malice did not"},
    {"user_in_a_path", "/home/alice/a", "[path-1]"},
    {"serial", "Serial Number : 1654523001234", "Serial Number : [serial-1]"},
    {"uuid", "GPU-8a56a4bc-e5d4-4e67-b0b4-a1b2c3d4e5f6", "GPU-[uuid-1]"},
    {"pci_address", "device 00000000:1B:00.0", "device [pci-1]"},
    {"address", "NET/Socket : eth0:10.1.2.3<0>", "NET/Socket : eth0:[address-1]<0>"},
    {"versions", "cuBLAS 13.1.0.3, cuDNN 9.19.0.56, driver 580.159.04",
     "cuBLAS 13.1.0.3, cuDNN 9.19.0.56, driver 580.159.04"},
    {"mail", "ask first.last@lab.example.org.", "ask [mail-1]."},
    {"hash_and_time", "e8af1e6da74a193550ca29aa40b3ddaaa4bedf5be96f6e62fa44e08c0aa7cbd4 2026-11-30T10:11:10",
     "e8af1e6da74a193550ca29aa40b3ddaaa4bedf5be96f6e62fa44e08c0aa7cbd4 2026-11-30T10:11:10"},
};
INSTANTIATE_TEST_SUITE_P(host, RedactedText, testing::ValuesIn(kTexts), text_name);

struct RedactedFolder : testing::TestWithParam<const char*> {};

TEST_P(RedactedFolder, says_what_was_replaced_and_not_the_values) {
  const Scratch scratch;
  const std::string name = "host/A.b/c", list = name + "\n";
  std::vector<Json> events = {{{"event", "run_begin"}, {"filter", "host/*"}, {"selected", 1}},
                              {{"event", "case_begin"},
                               {"case", name},
                               {"file", "/home/alice/h3/a.cpp"},
                               {"line", 1},
                               {"node", "gpu-node-17"}},
                              {{"event", "part"},
                               {"case", name},
                               {"kind", "failure"},
                               {"file", "a.cpp"},
                               {"line", 2},
                               {"text", "alice on gpu-node-17 wrote /tmp/alice/x"}},
                              {{"event", "case_end"},
                               {"case", name},
                               {"outcome", "failed"},
                               {"seconds", 0.5},
                               {"properties", {{"where", "gpu-node-17"}}}},
                              {{"event", "run_end"}, {"exit_code", 1}},
                              {{"event", "process_end"},
                               {"gate", "host"},
                               {"started", "2026-11-30T12:00:00"},
                               {"seconds", 1.0},
                               {"exit_code", 1},
                               {"signal", 0},
                               {"timed_out", false},
                               {"torn_bytes", 0},
                               {"required_sha256", sha256_hex(list)},
                               {"binary_sha256", ""}}};
  write_file(scratch.path(kRequiredFile), list);
  write_file(scratch.path(kLedgerFile), ledger_text(events));
  write_file(scratch.path(kOutputFile), "cwd /tmp/alice/x\nhost gpu-node-17\n");
  publish(scratch.folder(), kNames);

  const Verification found = verify(scratch.folder());
  EXPECT_EQ(found.refusals, std::vector<std::string>());
  EXPECT_EQ(found.derived.verdict.summary(),
            "gate host: 1 of 1 required cases ran, 0 passed, 1 failed: not closed");
  for (const auto& file : scratch.files())
    for (const auto& [kind, value] : kNames)
      EXPECT_EQ(read_file(scratch.path(file)).find(value), std::string::npos) << kind << " in " << file;
  EXPECT_EQ(read_file(scratch.path(kOutputFile)), "cwd [path-2]\nhost [host-1]\n")
      << "tokens are the ledger's";
  const auto row = [](const char* file, const char* field, const char* kind) {
    return Json{{"file", file}, {"field", field}, {"kind", kind}, {"count", 1}, {"distinct", 1}};
  };
  EXPECT_EQ(
      Json::parse(read_file(scratch.path(kRedactionFile))),
      (Json{{"schema", "h3.redaction.v1"},
            {"replaced",
             {row("ledger.jsonl", "case_begin.file", "path"), row("ledger.jsonl", "case_begin.node", "field"),
              row("ledger.jsonl", "case_end.properties", "host"), row("ledger.jsonl", "part.text", "host"),
              row("ledger.jsonl", "part.text", "path"), row("ledger.jsonl", "part.text", "user"),
              row("output.log", "", "host"), row("output.log", "", "path")}}}));
}
INSTANTIATE_TEST_SUITE_P(host, RedactedFolder, testing::Values("of_a_failed_gate"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
