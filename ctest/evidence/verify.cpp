#include "ctest/evidence/verify.h"

#include <algorithm>
#include <filesystem>

#include "ctest/evidence/folder.h"
#include "ctest/evidence/redaction.h"
#include "ctest/evidence/seal.h"
#include "ctest/files.h"
#include "model/error.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Findings = std::vector<std::string>;

Findings check_ledger(const Ledger& ledger) {
  if (!ledger.defect.empty()) return {fmt::format("{}: {}", kLedgerFile, ledger.defect)};
  if (ledger.torn_bytes != 0)
    return {fmt::format("{}: the last line is torn after {} bytes", kLedgerFile, ledger.torn_bytes)};
  if (ledger.events.empty()) return {fmt::format("{}: is empty", kLedgerFile)};
  const Json& last = ledger.events.back()["event"];
  if (last != "process_end" && last != "interrupted")
    return {fmt::format("{}: it does not come to an end: no process_end", kLedgerFile)};
  return {};
}

Findings check_list(const Derived& derived, const Expected& expected, const std::string& list) {
  const std::string& gate = derived.verdict.gate;
  if (!expected.gate.empty() && gate != expected.gate)
    return {fmt::format("{}: is of gate {}, expected {}", kLedgerFile, gate, expected.gate)};
  const std::string& first = derived.required.cases.front();
  if (first.substr(0, first.find('/')) != gate)
    return {fmt::format("{}: lists {}, which is no case of gate {}", kRequiredFile, first, gate)};
  const Json& end = derived.ledger.events.back();
  if (end["event"] == "process_end" && end.value("required_sha256", "") != derived.required.sha256)
    return {fmt::format("{}: is not the list of this run", kRequiredFile)};
  if (!list.empty() && list != derived.required.sha256)
    return {fmt::format("{}: differs from {}", kRequiredFile, expected.required)};
  return {};
}

// The line where two texts part, of the one that is there.
std::string first_difference(const std::string& there, const std::string& expected) {
  const auto at = std::ranges::mismatch(there, expected).in1;
  return fmt::format("line {}", 1 + std::count(there.begin(), at, '\n'));
}

Findings check_derived(const fs::path& root, const Derived& derived) {
  Findings findings;
  for (const auto& [name, bytes] : derived.files)
    if (const std::string there = read_file(root / name); there != bytes)
      findings.push_back(
          fmt::format("{}: is not what the ledger says, from {} on", name, first_difference(there, bytes)));
  return findings;
}

Findings check_privacy(const fs::path& root, const Derived& derived) {
  for (std::size_t i = 0; i < derived.ledger.events.size(); ++i)
    if (const std::string found = first_private_of_event(derived.ledger.events[i]); !found.empty())
      return {fmt::format("{}: line {}: {}", kLedgerFile, i + 1, found)};
  for (const char* name : {kOutputFile, kRequiredFile})
    if (const std::string found = first_private(read_file(root / name)); !found.empty())
      return {fmt::format("{}: {}", name, found)};
  return {};
}

}  // namespace

Verification verify(const std::string& folder, const Expected& expected) {
  const fs::path root(folder);
  require(fs::is_directory(root), "{}: is no folder", folder);
  const std::string list = expected.required.empty() ? "" : read_required(expected.required).sha256;
  Verification found;
  try {
    if (!(found.refusals = check_seal(folder)).empty()) return found;
    found.derived = derive(folder);
    if (!(found.refusals = check_ledger(found.derived.ledger)).empty()) return found;
    if (!(found.refusals = check_list(found.derived, expected, list)).empty()) return found;
    if (!(found.refusals = check_derived(root, found.derived)).empty()) return found;
    found.refusals = check_privacy(root, found.derived);
  } catch (const std::exception& error) {  // of what the folder holds
    found.refusals = {error.what()};
  }
  return found;
}

}  // namespace h3::gate
