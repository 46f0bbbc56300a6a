// Histograms of distances in ulp: the steps between words, the bins, and what every sweep has to find.
#include "harness/replay/ulp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <ostream>

namespace h3 {
namespace {

struct BinRow {
  const char* name;
  std::uint64_t first, last;  // distances of one bin, in its own words
  int bin;
  const char* title;
};
void PrintTo(const BinRow& row, std::ostream* out) { *out << row.name; }

struct UlpBins : testing::TestWithParam<BinRow> {};

TEST_P(UlpBins, end_at_powers_of_two) {
  const BinRow& row = GetParam();
  EXPECT_EQ(UlpHistogram::bin_of(row.first), row.bin);
  EXPECT_EQ(UlpHistogram::bin_of(row.last), row.bin);
  EXPECT_EQ(UlpHistogram::bin_of(row.last + 1), row.bin + 1);
  EXPECT_EQ(UlpHistogram::bin_name(row.bin), row.title);
}

constexpr BinRow kBins[] = {
    {"equal", 0, 0, 0, "0"},
    {"one", 1, 1, 1, "1"},
    {"two", 2, 2, 2, "2"},
    {"three_and_four", 3, 4, 3, "3-4"},
    {"five_to_eight", 5, 8, 4, "5-8"},
    {"large", 0x40000001, 0x80000000, 32, "1073741825-2147483648"},
};
INSTANTIATE_TEST_SUITE_P(host, UlpBins, testing::ValuesIn(kBins),
                         [](const auto& info) { return info.param.name; });

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct PairRow {
  const char* name;
  DType dtype;
  float golden, candidate;
  std::int64_t distance;  // -1: equal NaN or Inf; -2: NaN or Inf on one side
};
void PrintTo(const PairRow& row, std::ostream* out) { *out << row.name; }

struct UlpDistance : testing::TestWithParam<PairRow> {};

// One such pair among equal ones: counted, found, and nothing else.
TEST_P(UlpDistance, counts_steps_between_words) {
  const PairRow& row = GetParam();
  constexpr std::int64_t kAt = 5;
  Tensor golden(DType::fp32, {2, 4}), candidate(DType::fp32, {2, 4});
  for (std::int64_t i = 0; i < 8; ++i) golden.data<float>()[i] = candidate.data<float>()[i] = float(i);
  golden.data<float>()[kAt] = row.golden;
  candidate.data<float>()[kAt] = row.candidate;
  const UlpHistogram found = ulp_histogram(golden, candidate.to(row.dtype));
  EXPECT_EQ(found.elements, 8);
  EXPECT_EQ(found.non_finite_equal, row.distance == -1);
  EXPECT_EQ(found.non_finite_mismatches, row.distance == -2);
  EXPECT_EQ(found.first_mismatch, row.distance == -2 ? kAt : -1);
  EXPECT_EQ(found.worst, std::uint64_t(std::max<std::int64_t>(row.distance, 0)));
  if (row.distance > 0) {
    EXPECT_EQ(found.worst_index, kAt);
    EXPECT_EQ(found.bins[0], 7);
    EXPECT_EQ(found.bins[std::size_t(UlpHistogram::bin_of(std::uint64_t(row.distance)))], 1);
    EXPECT_DOUBLE_EQ(found.share_correctly_rounded(), 7.0 / 8);
  } else {
    EXPECT_DOUBLE_EQ(found.share_correctly_rounded(), 1);
  }
}

const PairRow kPairs[] = {
    {"equal", DType::bf16, 1, 1, 0},
    {"bf16_next", DType::bf16, 1, 0x1.02p0f, 1},
    {"bf16_golden_is_rounded", DType::bf16, 0x1.010002p0f, 0x1.02p0f, 0},
    {"bf16_across_an_exponent", DType::bf16, 0x1.fep-1f, 0x1.02p0f, 2},
    {"fp16_next", DType::fp16, 1, 0x1.004p0f, 1},
    {"fp32_next", DType::fp32, 1, 0x1.000002p0f, 1},
    {"zeros_of_two_signs", DType::fp32, 0, -0.0f, 0},
    {"across_zero", DType::fp32, 0x1p-149f, -0x1p-149f, 2},
    {"largest", DType::bf16, -0x1.fep127f, 0x1.fep127f, 2 * 0x7f7f},
    {"nan_in_both", DType::bf16, kNan, kNan, -1},
    {"inf_in_both", DType::bf16, kInf, kInf, -1},
    {"golden_rounds_to_inf", DType::fp16, 70000, kInf, -1},
    {"other_inf", DType::bf16, kInf, -kInf, -2},
    {"nan_in_one", DType::fp32, 1, kNan, -2},
    {"nan_expected", DType::fp32, kNan, 1, -2},
};
INSTANTIATE_TEST_SUITE_P(host, UlpDistance, testing::ValuesIn(kPairs),
                         [](const auto& info) { return info.param.name; });

// What is known of the rows' arithmetic shows in their sweeps; a row that was not run, or not written, would
// not.
struct SweepRow {
  const char* row;
  const char* dtype;
  std::int64_t elements;
  double least_share;  // correctly rounded
};
void PrintTo(const SweepRow& row, std::ostream* out) { *out << row.row << '_' << row.dtype; }

struct UlpSweep : testing::TestWithParam<SweepRow> {};

TEST_P(UlpSweep, covers_its_inputs_and_is_near_its_golden) {
  const SweepRow& row = GetParam();
  const UlpReport report = ulp_sweep({.row = row.row, .dtype = row.dtype});
  EXPECT_EQ(report.histogram.elements, row.elements);
  EXPECT_EQ(report.histogram.non_finite_mismatches, 0);
  EXPECT_GE(report.histogram.share_correctly_rounded(), row.least_share);
  EXPECT_LT(report.histogram.share_correctly_rounded(), 1);  // all of them round more than once
  EXPECT_FALSE(report.worst.inputs.empty());
  std::int64_t binned = 0;
  for (const auto count : report.histogram.bins) binned += count;
  EXPECT_EQ(binned, report.histogram.finite());
  EXPECT_EQ(to_json(report)["worst"]["ulp"], report.histogram.worst);
}

constexpr SweepRow kSweeps[] = {
    {"swiglu", "bf16", 4 * 65536, 0.98},
    {"gate_residual", "bf16", 64 * 5376, 0.85},
    {"mm_rope", "bf16", 128 * 8 * 128, 0.75},
    {"ode_step", "fp32", 50 * 4096, 0.3},
    {"ode_step", "bf16", 50 * 4096, 0.95},
    {"ode_step", "fp16", 50 * 4096, 0.95},
    {"timestep_sinusoid", "bf16", 16257 * 256, 0.6},
    {"rms_norm", "bf16", 64 * 5376, 0.95},
    {"rms_norm", "fp16", 64 * 5376, 0.95},
    {"rms_norm", "fp32", 64 * 5376, 0.3},
    {"modulated_rms_norm", "bf16", 64 * 5376, 0.5},
    {"qk_norm", "bf16", 64 * 56 * 128, 0.95},
    {"linear", "bf16", 16 * 256, 0.9},
};
INSTANTIATE_TEST_SUITE_P(host, UlpSweep, testing::ValuesIn(kSweeps), [](const auto& info) {
  return std::string(info.param.row) + "_" + info.param.dtype;
});

struct BadRow {
  const char* name;
  UlpRequest request;
  const char* message;
};
void PrintTo(const BadRow& row, std::ostream* out) { *out << row.name; }

struct UlpBadInput : testing::TestWithParam<BadRow> {};

TEST_P(UlpBadInput, is_one_line) {
  try {
    ulp_sweep(GetParam().request);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

const BadRow kBad[] = {
    {"row", {.row = "softmax"}, "row 'softmax' has no sweep (--list names those that have)"},
    {"dtype", {.row = "swiglu", .dtype = "fp32"}, "row swiglu: dtype 'fp32', expected bf16"},
    {"engine", {.row = "ode_step", .engine = "tpu"}, "engine 'tpu': expected cpu or cuda"},
};
INSTANTIATE_TEST_SUITE_P(host, UlpBadInput, testing::ValuesIn(kBad),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
