// Test binaries go wrong in ways that the default tool chain reports as success. This one goes wrong on
// purpose: each instantiation prefix is a gate of its own with one misbehaviour, and
// conformance/host/false_greens.cpp asserts that h3_gate does not close it. It has the main and the listener
// of the real conformance binary.
//
// A misbehaviour that would touch the whole process (an Environment, shards, a repeat) is switched on by
// H3_FALSE_GREEN=<prefix>, the others by being selected.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "conformance/claims.h"

namespace h3 {
namespace {

bool asked_for(const char* misbehaviour) {
  const char* asked = std::getenv("H3_FALSE_GREEN");
  return asked && std::string(asked) == misbehaviour;
}

std::string only_name(const testing::TestParamInfo<int>& info) { return "row_" + std::to_string(info.param); }

// ---- The twin of all others: nothing is wrong.

struct Honest : testing::TestWithParam<int> {};
TEST_P(Honest, passes) {
  RecordProperty("metric", "max_abs");
  RecordProperty("limit", "0.5");
  RecordProperty("measured", "0.25");
  EXPECT_GT(GetParam(), 0);
}
INSTANTIATE_TEST_SUITE_P(honest, Honest, testing::Values(1, 2, 3), only_name);

// ---- Outside of the test bodies.

struct SuiteSetup : testing::TestWithParam<int> {
  static void SetUpTestSuite() { FAIL() << "no weights"; }
};
TEST_P(SuiteSetup, never_runs) {}
INSTANTIATE_TEST_SUITE_P(suite_setup_fails, SuiteSetup, testing::Values(1, 2), only_name);

struct SuiteTearDown : testing::TestWithParam<int> {
  static void TearDownTestSuite() { ADD_FAILURE() << "leaked a handle"; }
};
TEST_P(SuiteTearDown, passes) {}
INSTANTIATE_TEST_SUITE_P(suite_teardown_fails, SuiteTearDown, testing::Values(1), only_name);

struct LeavesEarly : testing::TestWithParam<int> {
  static void TearDownTestSuite() { std::exit(0); }
};
TEST_P(LeavesEarly, passes) {}
INSTANTIATE_TEST_SUITE_P(exits_between_cases, LeavesEarly, testing::Values(1), only_name);

struct BadEnvironment : testing::Environment {
  void SetUp() override {
    if (asked_for("environment_fails")) FAIL() << "no driver";
    if (asked_for("environment_skips")) GTEST_SKIP() << "no_device: none";
  }
};
[[maybe_unused]] const testing::Environment* const bad_environment =
    testing::AddGlobalTestEnvironment(new BadEnvironment);

INSTANTIATE_TEST_SUITE_P(environment_fails, Honest, testing::Values(1), only_name);
INSTANTIATE_TEST_SUITE_P(environment_skips, Honest, testing::Values(1), only_name);

// Parameter generators run after GoogleTest has read its command line: late enough to override it.
std::vector<int> meddling_values() {
  if (asked_for("repeats")) GTEST_FLAG_SET(repeat, 2);
  if (asked_for("shards")) {
    ::setenv("GTEST_TOTAL_SHARDS", "2", 1);
    ::setenv("GTEST_SHARD_INDEX", "1", 1);
  }
  return {1, 2};
}
INSTANTIATE_TEST_SUITE_P(repeats, Honest, testing::ValuesIn(meddling_values()), only_name);
INSTANTIATE_TEST_SUITE_P(shards, Honest, testing::Values(1, 2), only_name);

// ---- Inside a test body.

struct Misbehaves : testing::TestWithParam<int> {};

struct PrintsSkipped : Misbehaves {};
TEST_P(PrintsSkipped, while_failing) {
  std::printf("[  SKIPPED ] prints_skipped/PrintsSkipped.while_failing/row_1 (0 ms)\n");
  ADD_FAILURE() << "wrong bits";
}
INSTANTIATE_TEST_SUITE_P(prints_skipped, PrintsSkipped, testing::Values(1), only_name);

struct FailsThenSkips : Misbehaves {};
TEST_P(FailsThenSkips, both) {
  ADD_FAILURE() << "wrong bits";
  GTEST_SKIP() << "no_device: none";
}
INSTANTIATE_TEST_SUITE_P(fails_then_skips, FailsThenSkips, testing::Values(1), only_name);

struct SkipsForNoReason : Misbehaves {};
TEST_P(SkipsForNoReason, silently) { GTEST_SKIP() << "not today"; }
INSTANTIATE_TEST_SUITE_P(skips_for_no_reason, SkipsForNoReason, testing::Values(1), only_name);

struct SkipsForAReason : Misbehaves {
  void SetUp() override { GTEST_SKIP() << "no_device: no GPU on this machine"; }
};
TEST_P(SkipsForAReason, in_set_up) {}
INSTANTIATE_TEST_SUITE_P(skips_for_a_reason, SkipsForAReason, testing::Values(1, 2), only_name);

struct Aborts : Misbehaves {};
TEST_P(Aborts, on_row_2) {
  if (GetParam() == 2) std::abort();
}
INSTANTIATE_TEST_SUITE_P(aborts, Aborts, testing::Values(1, 2, 3), only_name);

struct ExitsWithZero : Misbehaves {};
TEST_P(ExitsWithZero, on_row_2) {
  if (GetParam() == 2) std::exit(0);
}
INSTANTIATE_TEST_SUITE_P(exits_with_zero, ExitsWithZero, testing::Values(1, 2, 3), only_name);

struct LeavesWith7 : Misbehaves {};
TEST_P(LeavesWith7, after_passing) {
  std::atexit([] { ::_exit(7); });  // as a leak checker does
}
INSTANTIATE_TEST_SUITE_P(leaves_with_7, LeavesWith7, testing::Values(1), only_name);

struct Hangs : Misbehaves {};
TEST_P(Hangs, on_row_2) {
  while (GetParam() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}
INSTANTIATE_TEST_SUITE_P(hangs, Hangs, testing::Values(1, 2, 3), only_name);

struct HangsDeaf : Misbehaves {};
TEST_P(HangsDeaf, to_being_asked) {
  std::signal(SIGTERM, SIG_IGN);
  while (true) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}
INSTANTIATE_TEST_SUITE_P(hangs_deaf, HangsDeaf, testing::Values(1), only_name);

struct ControlCharacters : Misbehaves {};
TEST_P(ControlCharacters, in_the_message) {
  RecordProperty("note", "bell \a, broken \xC3( and <tag> \"quoted\"");
  ADD_FAILURE() << "escape \x1B[31m, broken \xFF\xC0\x80 bytes, \xEF\xBF\xBF, ]]> & <b>";
}
INSTANTIATE_TEST_SUITE_P(control_characters, ControlCharacters, testing::Values(1), only_name);

struct NanMetric : Misbehaves {};
TEST_P(NanMetric, that_never_exceeds) {
  const double measured = std::numeric_limits<double>::quiet_NaN();
  RecordProperty("metric", "max_abs");
  RecordProperty("limit", "0.5");
  RecordProperty("measured", std::to_string(measured));
  EXPECT_FALSE(measured > 0.5);
}
INSTANTIATE_TEST_SUITE_P(nan_metric, NanMetric, testing::Values(1), only_name);

struct IgnoredLimit : Misbehaves {};
TEST_P(IgnoredLimit, is_exceeded) {
  RecordProperty("metric", "max_abs");
  RecordProperty("limit", "0.5");
  RecordProperty("measured", "0.75");
}
INSTANTIATE_TEST_SUITE_P(ignored_limit, IgnoredLimit, testing::Values(1), only_name);

// ---- An honest failure: what a person gets to read.

struct WrongBits : Misbehaves {};
TEST_P(WrongBits, are_reported) {
  Tensor expected(DType::bf16, {40, 100});
  for (Bf16& value : expected.values<Bf16>()) value = to_bf16(1.0f);
  Tensor actual = expected.clone();
  actual.data<Bf16>()[1234] = to_bf16(1.5f);
  EXPECT_TRUE(bitwise_equal(expected, actual));
}
INSTANTIATE_TEST_SUITE_P(wrong_bits, WrongBits, testing::Values(1), only_name);

struct BeyondBound : Misbehaves {};
TEST_P(BeyondBound, is_reported) {
  Tensor golden(DType::fp32, {4});
  for (float& value : golden.values<float>()) value = 2;
  Tensor actual = golden.clone();
  actual.data<float>()[3] = 2.5f;
  EXPECT_TRUE(within({.max_abs = 0.25}, golden, actual));
}
INSTANTIATE_TEST_SUITE_P(beyond_bound, BeyondBound, testing::Values(1), only_name);

}  // namespace
}  // namespace h3
