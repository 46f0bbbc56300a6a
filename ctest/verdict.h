// What a ledger proves about a gate. A pure function of the ledger and the list of required cases: the gate
// uses it after the run, `h3_evidence verify` uses it a year later.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/report/ledger.h"

namespace h3::gate {

enum class Outcome { passed, failed, not_run };

struct CaseVerdict {
  std::string name;  // block0/RmsNorm.matches_golden/B0_03_bf16
  Outcome outcome = Outcome::not_run;
  std::string type;     // why it is not passed: the metric that failed, or claim, doubled, unlisted; not-run
  std::string message;  // one line
  std::string text;     // all of it
  std::string file;
  int line = 0;
  double seconds = 0;
  bool required = true;
  bool skipped = false;  // not run by its own decision, for an allowed reason or not
  std::vector<std::pair<std::string, std::string>> properties;
};

struct Verdict {
  std::string gate;
  std::string started;  // UTC, from the ledger
  double seconds = 0;
  std::vector<CaseVerdict> cases;  // the required ones in the order of the list, then the unlisted ones
  std::vector<std::pair<std::string, std::string>>
      problems;  // of the run as a whole: short name, what happened
  int required = 0, ran = 0, passed = 0, failed = 0, skipped = 0, missing = 0, unlisted = 0;

  bool closed() const { return required > 0 && passed == required && unlisted == 0 && problems.empty(); }
  bool all_skipped = false;  // every required case skipped for an allowed reason, and nothing else is wrong
  std::string summary() const;  // gate host: 123 of 123 required cases ran, 123 passed
};

// Closed only when every required case ran exactly once and passed; no case is skipped, doubled, crashed or
// unlisted; no metric is NaN or infinite; nothing failed outside of a case; the run came to its end with exit
// code 0; and the ledger's chain is whole.
Verdict judge(const std::string& gate, const Ledger& ledger, const std::vector<std::string>& required);

}  // namespace h3::gate
