// The conformance binary's own main. GoogleTest's exit code alone can be 0 when nothing ran (an empty
// selection, a skip in an Environment, a shard that owns no case), so the exit code is decided here:
//   0 passed   1 failed   2 nothing ran   77 everything selected was skipped, each for an allowed reason
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "conformance/listener.h"
#include "model/error.h"

namespace {

constexpr int kPassed = 0, kFailed = 1, kNothingRan = 2, kSkipped = 77;

// GoogleTest hides failures outside of test bodies (SetUpTestSuite, Environment) from its counts.
bool failed_or_skipped_outside_a_case(const testing::UnitTest& run) {
  const auto bad = [](const testing::TestResult& result) { return result.Failed() || result.Skipped(); };
  if (bad(run.ad_hoc_test_result())) return true;
  for (int i = 0; i < run.total_test_suite_count(); ++i)
    if (bad(run.GetTestSuite(i)->ad_hoc_test_result())) return true;
  return false;
}

int exit_code(const testing::UnitTest& run, bool every_skip_is_allowed) {
  if (run.Failed() || failed_or_skipped_outside_a_case(run) || !every_skip_is_allowed) return kFailed;
  if (run.test_to_run_count() == 0) return kNothingRan;
  if (run.skipped_test_count() == run.test_to_run_count()) return kSkipped;
  if (run.successful_test_count() + run.skipped_test_count() != run.test_to_run_count()) return kFailed;
  return kPassed;
}

}  // namespace

int main(int argc, char** argv) try {
  testing::InitGoogleTest(&argc, argv);
  std::string ledger;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i], kLedger = "--ledger=";
    h3::require(argument.starts_with(kLedger), "unknown argument '{}' (expected --ledger=FILE or --gtest_*)",
                argument);
    ledger = argument.substr(kLedger.size());
  }
  auto& run = *testing::UnitTest::GetInstance();
  auto* listener = new h3::ConformanceListener(ledger);  // owned by GoogleTest from here on
  run.listeners().Append(listener);
  const int gtest_says = RUN_ALL_TESTS();
  int code = exit_code(run, listener->every_skip_is_allowed());
  if (code == kPassed && gtest_says != 0) code = kFailed;
  listener->seal(code);
  return code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "h3_conformance: %s\n", error.what());
  return kFailed;
}
