// An honest run is not refused: an unchanged one repeats to the byte, and others that compute the same in
// another order, or from inputs that another rounding left, stay inside the bounds.
#include "harness/power/false_alarms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

namespace h3 {
namespace {

struct HonestRow {
  Honest variant;
  std::int64_t repeats;
};
void PrintTo(const HonestRow& row, std::ostream* out) { *out << name_of(row.variant) << '_' << row.repeats; }

struct HonestRuns : testing::TestWithParam<HonestRow> {};

TEST_P(HonestRuns, raise_no_alarm) {
  const AlarmCount count = count_alarms(GetParam().variant, GetParam().repeats);
  RecordProperty("worst_used", fmt::format("{:.3f}", count.worst_used));
  RecordProperty("upper_rate_95", fmt::format("{:.4f}", count.upper_rate()));
  EXPECT_EQ(count.repeats, GetParam().repeats);
  EXPECT_EQ(count.tensors, 47);
  EXPECT_EQ(count.alarms, 0) << count.worst << " used " << count.worst_used << " of its bound";
  EXPECT_GT(count.worst_used, 0.1) << "a bound that nothing comes near was not derived from this block";
}
INSTANTIATE_TEST_SUITE_P(host, HonestRuns,
                         testing::Values(HonestRow{Honest::unchanged, 200},
                                         HonestRow{Honest::other_order, 40},
                                         HonestRow{Honest::rounded_inputs, 40}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
