// The conformance binary's own main. GoogleTest's exit code alone can be 0 when nothing ran (an empty
// selection, a skip in an Environment, a shard that owns no case), so the exit code is decided here:
//   0 passed   1 failed   2 nothing ran   77 everything selected was skipped, each for an allowed reason
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "conformance/listener.h"

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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string ledger;
  for (int i = 1; i < argc; ++i) {
    constexpr const char* kLedger = "--ledger=";
    if (std::strncmp(argv[i], kLedger, std::strlen(kLedger)) == 0) {
      ledger = argv[i] + std::strlen(kLedger);
    } else {
      std::fprintf(stderr, "h3_conformance: unknown argument '%s' (expected --ledger=FILE or --gtest_*)\n",
                   argv[i]);
      return kNothingRan;
    }
  }
  auto& run = *testing::UnitTest::GetInstance();
  auto* listener = new h3::ConformanceListener(ledger);  // owned by GoogleTest from here on
  run.listeners().Append(listener);
  const int gtest_says = RUN_ALL_TESTS();
  int code = exit_code(run, listener->every_skip_is_allowed());
  if (code == kPassed && gtest_says != 0) code = kFailed;
  listener->seal(code);
  return code;
}
