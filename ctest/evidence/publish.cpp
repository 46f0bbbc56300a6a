#include "ctest/evidence/publish.h"

#include <filesystem>

#include "ctest/evidence/derived.h"
#include "ctest/evidence/folder.h"
#include "ctest/evidence/seal.h"
#include "model/atomic_file.h"
#include "model/error.h"

namespace h3::gate {

namespace fs = std::filesystem;

void publish(const std::string& folder, PrivateNames names) {
  const fs::path root(folder);
  break_seal(folder);
  if (!fs::exists(root / kOutputFile)) write_file(root / kOutputFile, "");  // the binary did not start
  redact_folder(folder, std::move(names));
  for (const auto& [name, bytes] : derive(folder).files) write_file(root / name, bytes);
  write_seal(folder);
}

void publish_interrupted(const std::string& folder) {
  const fs::path root(folder);
  require(!looks_sealed(folder), "{}: is sealed already", folder);
  const Ledger ledger = read_ledger(root / kLedgerFile);
  require(!ledger.events.empty(), "{}: no run began here: {}", (root / kLedgerFile).string(),
          ledger.defect.empty() ? "the ledger is empty" : ledger.defect);
  break_seal(folder);
  const auto& last = ledger.events.back()["event"];
  if (last != "process_end" && last != "interrupted") {
    LedgerWriter writer = LedgerWriter::continue_at(root / kLedgerFile);
    writer.append({{"event", "interrupted"}, {"torn_bytes", writer.torn_bytes()}});
    writer.sync();
  }
  publish(folder);
}

}  // namespace h3::gate
