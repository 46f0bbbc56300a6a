// The ledger of a run: one JSON object a line, appended as things happen. It is the evidence; every report is
// derived from it. Each line is handed to the system at once, so it survives the process; the ledger is
// synced to the disk as each case begins, so that it also survives a machine that the case takes down.
//
// Each line carries `seq` (0, 1, 2, ...) and `prev`, the SHA-256 of the line before it (64 zeros for the
// first), so that a line cannot be changed, dropped or inserted later without being noticed. Who writes what:
//   conformance binary   run_begin  gate selection, number of selected cases
//                        case_begin case
//                        part       case (empty outside of a case), kind failure|skip, file, line, text
//                        case_end   case, outcome passed|failed|skipped, seconds, properties
//                        run_end    exit_code
//                        binary     build, variables, libraries, fixtures_sha256: what runs
//                        loaded     libraries that came later
//   h3_gate              process_end exit_code or signal, timed_out, seconds, torn_bytes, environment, git
//                        refused    reason: the binary was not started
//   h3_evidence seal     interrupted torn_bytes: h3_gate itself did not come to its end
// A case_begin without case_end is a crash. A ledger without run_end is a run that ended too early.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/json.h"

namespace h3 {

// Appends events, each written in one piece. Throws h3::Error when the disk refuses.
class LedgerWriter {
 public:
  explicit LedgerWriter(const std::string& path);  // a new file; an existing one is refused
  static LedgerWriter continue_at(
      const std::string& path);  // after its last whole line; a torn line is cut off
  LedgerWriter(LedgerWriter&& other) noexcept;
  LedgerWriter& operator=(LedgerWriter&&) = delete;
  ~LedgerWriter();

  void append(nlohmann::ordered_json event);  // an object; strings are made printable
  void sync();                                // everything so far is on the disk
  std::int64_t torn_bytes() const { return torn_bytes_; }

 private:
  LedgerWriter() = default;
  int file_ = -1;
  std::int64_t sequence_ = 0;
  std::int64_t torn_bytes_ = 0;
  std::string previous_, path_;
};

// The lines of a ledger that holds these events; `seq` and `prev` are made anew.
std::string ledger_text(std::vector<nlohmann::ordered_json> events);

struct Ledger {
  std::vector<nlohmann::ordered_json> events;  // the lines before the first defect
  std::string root;                            // SHA-256 of the last of them
  std::string defect;                          // empty, or what is wrong: "line 7: ..."
  std::int64_t torn_bytes = 0;                 // an unfinished last line: a writer that died while writing
};

// Never throws for what the file holds; a file that cannot be opened is a defect, too.
Ledger read_ledger(const std::string& path);

}  // namespace h3
