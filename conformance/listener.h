// Follows a run: writes each case into the ledger as it begins and ends, and holds skips against the closed
// list of allowed reasons.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "harness/report/ledger.h"

namespace h3 {

// A case may skip only in SetUp, and only with `GTEST_SKIP() << "no_device: ..."` where the first word is one
// of no_device, wrong_arch, too_little_memory, fixture_absent. A skip never closes a gate.
bool is_allowed_skip(const std::string& message);

class ConformanceListener : public testing::EmptyTestEventListener {
 public:
  explicit ConformanceListener(const std::string& ledger_path);  // "" writes no ledger

  bool every_skip_is_allowed() const { return every_skip_is_allowed_; }
  void seal(int exit_code);  // the last line of a run that came to its end

  void OnTestProgramStart(const testing::UnitTest& run) override;
  void OnTestStart(const testing::TestInfo& info) override;
  void OnTestPartResult(const testing::TestPartResult& part) override;
  void OnTestEnd(const testing::TestInfo& info) override;

 private:
  void append(nlohmann::ordered_json event);

  std::optional<LedgerWriter> ledger_;
  nlohmann::ordered_json libraries_;  // at the beginning
  std::string current_case_;
  bool every_skip_is_allowed_ = true;
};

}  // namespace h3
