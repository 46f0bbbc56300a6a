// The comparator: what it measures, what a bound accepts, and that no usual way of fooling it works.
#include "harness/compare/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <vector>

#include "conformance/claims.h"

namespace h3 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor tensor_of(const std::vector<float>& values, DType dtype = DType::fp32) {
  Tensor tensor(DType::fp32, {std::int64_t(values.size())});
  std::ranges::copy(values, tensor.data<float>());
  return dtype == DType::fp32 ? tensor : tensor.to(dtype);
}

// A function of (seed, index) alone, between -1 and 1.
float drawn(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 31) * 0x94D049BB133111EB;
  return float(std::int64_t(x ^ x >> 29) >> 40) * 0x1p-23f;
}

// ---- Bounds: small tensors, one property each.

struct BoundRow {
  const char* name;
  std::vector<float> golden, actual;
  Bound bound;
  bool accepted;
  const char* metric;  // that decided
};
void PrintTo(const BoundRow& row, std::ostream* out) { *out << row.name; }
std::string bound_name(const testing::TestParamInfo<BoundRow>& info) { return info.param.name; }

struct Bounds : testing::TestWithParam<BoundRow> {};

TEST_P(Bounds, decide_as_stated) {
  const BoundRow& row = GetParam();
  const Judgement judgement = judge(row.bound, compare(tensor_of(row.golden), tensor_of(row.actual)));
  EXPECT_EQ(judgement.accepted, row.accepted) << judgement.reason;
  EXPECT_EQ(judgement.metric, row.metric) << judgement.reason;
}

const Bound kLoose{.relative_l2 = 0.5, .max_abs = 100};
const Bound kAll{.relative_l2 = 1e-2, .max_abs = 0.1, .max_abs_over_absmax = 0.05};
const BoundRow kBounds[] = {
    {"identical", {1, -2, 3}, {1, -2, 3}, {.max_abs = 0}, true, "max_abs"},
    {"limit_is_inclusive", {1, 2}, {1, 2.5}, {.max_abs = 0.5}, true, "max_abs"},
    {"limit_exceeded", {1, 2}, {1, 2.5}, {.max_abs = 0.4}, false, "max_abs"},
    {"worst_metric_is_named", {1, 2}, {1, 2.5}, {.relative_l2 = 1, .max_abs = 0.4}, false, "max_abs"},
    {"one_ulp_within_one", {1}, {1 + 0x1p-23f}, {.max_ulp = 1}, true, "max_ulp"},
    {"two_ulps_exceed_one", {1}, {1 + 0x1p-22f}, {.max_ulp = 1}, false, "max_ulp"},
    {"ulps_cross_zero", {0x1p-149f}, {-0x1p-149f}, {.max_ulp = 1}, false, "max_ulp"},
    {"nan_in_candidate", {1, 2, 3}, {1, kNan, 3}, kLoose, false, "finite"},
    {"nan_in_golden", {1, kNan, 3}, {1, 2, 3}, kLoose, false, "finite"},
    {"nan_on_both_sides", {1, kNan, 3}, {1, kNan, 3}, kLoose, false, "golden_finite"},
    {"inf_in_candidate", {1, 2, 3}, {1, kInf, 3}, kLoose, false, "finite"},
    {"inf_of_other_sign", {1, kInf, 3}, {1, -kInf, 3}, kLoose, false, "finite"},
    {"inf_on_both_sides_agrees", {1, kInf, 3}, {1, kInf, 3}, kLoose, true, "relative_l2"},
    {"golden_without_energy", {0, 0}, {0, 0}, kLoose, false, "golden_energy"},
    {"golden_without_energy_error_too", {0, 0}, {0, 1}, kLoose, false, "golden_energy"},
    {"negative_zero_is_no_error", {0, 1}, {-0.0f, 1}, {.max_abs = 0, .max_ulp = 0}, true, "max_abs"},
    {"blind_spot_scaled", {1, -2, 3, 4}, {1.5, -3, 4.5, 6}, kAll, false, "relative_l2"},
    {"blind_spot_shifted", {1, -2, 3, 4}, {1.5, -1.5, 3.5, 4.5}, kAll, false, "relative_l2"},
    {"blind_spot_one_huge", {1, -2, 3, 4}, {1, -2, 1e6f, 4}, kAll, false, "relative_l2"},
    {"blind_spot_zeros", {1, -2, 3, 4}, {0, 0, 0, 0}, kAll, false, "relative_l2"},
};
INSTANTIATE_TEST_SUITE_P(host, Bounds, testing::ValuesIn(kBounds), bound_name);

// ---- What cannot be compared.

struct MismatchRow {
  const char* name;
  Tensor expected, actual;
  const char* reason;  // part of it
};
void PrintTo(const MismatchRow& row, std::ostream* out) { *out << row.name; }
std::string mismatch_name(const testing::TestParamInfo<MismatchRow>& info) { return info.param.name; }

struct Mismatches : testing::TestWithParam<MismatchRow> {};

TEST_P(Mismatches, never_pass) {
  const MismatchRow& row = GetParam();
  const Comparison comparison = compare(row.expected, row.actual);
  EXPECT_NE(comparison.mismatch.find(row.reason), std::string::npos) << comparison.mismatch;
  EXPECT_FALSE(comparison.same_bits());
  EXPECT_FALSE(judge({.max_abs = 1e30}, comparison).accepted);
  EXPECT_FALSE(bitwise_equal(row.expected, row.actual));
}

std::vector<MismatchRow> mismatches() {
  const auto make = [](DType dtype, Shape shape) { return Tensor(dtype, std::move(shape)); };
  return {
      {"shape", make(DType::fp32, {2, 3}), make(DType::fp32, {3, 2}), "shapes differ: expected 2x3, got 3x2"},
      {"rank", make(DType::fp32, {6}), make(DType::fp32, {1, 6}), "shapes differ"},
      {"golden_narrower", make(DType::bf16, {6}), make(DType::fp32, {6}),
       "types differ: expected bf16, got fp32"},
      {"two_16_bit_formats", make(DType::bf16, {6}), make(DType::fp16, {6}), "types differ"},
      {"integers_and_floats", make(DType::i64, {6}), make(DType::fp64, {6}), "types differ"},
      {"nothing_compared_no_elements", make(DType::fp32, {0, 4}), make(DType::fp32, {0, 4}),
       "nothing compared"},
      {"nothing_compared_no_candidate", make(DType::fp32, {4}), Tensor(), "nothing compared: the actual"},
      {"nothing_compared_no_golden", Tensor(), make(DType::fp32, {4}), "nothing compared: the expected"},
  };
}
INSTANTIATE_TEST_SUITE_P(host, Mismatches, testing::ValuesIn(mismatches()), mismatch_name);

// ---- Against a plain loop, in every type, at sizes around the block and chunk borders.

struct SweepRow {
  DType dtype;
  std::int64_t rows, cols;
  std::uint64_t seed;
};
void PrintTo(const SweepRow& row, std::ostream* out) {
  *out << name_of(row.dtype) << row.rows << "x" << row.cols;
}
std::string sweep_name(const testing::TestParamInfo<SweepRow>& info) {
  const SweepRow& row = info.param;
  return fmt::format("{}_{}x{}_s{}", name_of(row.dtype), row.rows, row.cols, row.seed);
}

struct Comparator : testing::TestWithParam<SweepRow> {
  Tensor drawn_tensor(std::uint64_t seed) const {
    const SweepRow& row = GetParam();
    Tensor tensor(DType::fp64, {row.rows, row.cols});
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<double>()[i] = drawn(seed, std::uint64_t(i));
    return tensor;
  }
};

TEST_P(Comparator, agrees_with_a_plain_loop) {
  const SweepRow& row = GetParam();
  const Tensor golden = drawn_tensor(row.seed);
  Tensor planted = golden.clone();
  for (std::int64_t i = std::int64_t(row.seed); i < planted.elements(); i += 97)
    planted.data<double>()[i] += 0.25 * drawn(row.seed + 1, std::uint64_t(i));
  const Tensor expected = golden.to(row.dtype), actual = planted.to(row.dtype);

  std::int64_t differing = 0, first = -1, worst = -1;
  double error2 = 0, energy = 0, max_abs = 0;
  const std::size_t size = size_of(row.dtype);
  const Tensor e = expected.to(DType::fp64), a = actual.to(DType::fp64);
  for (std::int64_t i = 0; i < e.elements(); ++i) {
    const double error = std::fabs(a.data<double>()[i] - e.data<double>()[i]);
    error2 += error * error;
    energy += e.data<double>()[i] * e.data<double>()[i];
    if (error > max_abs) max_abs = error, worst = i;
    if (std::memcmp(expected.bytes() + std::size_t(i) * size, actual.bytes() + std::size_t(i) * size, size) !=
        0) {
      ++differing;
      if (first < 0) first = i;
    }
  }
  const Comparison comparison = compare(expected, actual);
  EXPECT_EQ(comparison.elements, row.rows * row.cols);
  EXPECT_EQ(comparison.differing, differing);
  EXPECT_EQ(comparison.first_differing, first);
  EXPECT_EQ(comparison.first_row, first < 0 ? -1 : first / row.cols);
  EXPECT_EQ(comparison.max_abs, max_abs);
  EXPECT_EQ(comparison.max_abs_index, worst);
  EXPECT_NEAR(comparison.relative_l2, std::sqrt(error2 / energy), 1e-12);
}

TEST_P(Comparator, finds_one_flipped_bit_anywhere) {
  const SweepRow& row = GetParam();
  const Tensor expected = drawn_tensor(row.seed).to(row.dtype);
  for (const double where : {0.0, 0.37, 0.9999999}) {
    const std::int64_t index = std::int64_t(where * double(expected.elements()));
    Tensor actual = expected.clone();
    actual.bytes()[std::size_t(index) * size_of(row.dtype)] ^= std::byte{1};  // the last bit
    const Comparison comparison = compare(expected, actual);
    EXPECT_EQ(comparison.differing, 1);
    EXPECT_EQ(comparison.first_differing, index);
    EXPECT_EQ(comparison.max_ulp, 1u);
    EXPECT_EQ(comparison.max_ulp_index, index);
    EXPECT_FALSE(bitwise_equal(expected, actual));
  }
}

TEST_P(Comparator, finds_one_nan_anywhere) {
  const SweepRow& row = GetParam();
  const Tensor expected = drawn_tensor(row.seed).to(row.dtype);
  for (const double where : {0.0, 0.61, 0.9999999}) {
    const std::int64_t index = std::int64_t(where * double(expected.elements()));
    Tensor wide = expected.to(DType::fp64);
    wide.data<double>()[index] = std::numeric_limits<double>::quiet_NaN();
    const Comparison comparison = compare(expected, wide.to(row.dtype));
    EXPECT_EQ(comparison.actual_nan, 1);
    EXPECT_EQ(comparison.first_non_finite_mismatch, index);
    EXPECT_FALSE(judge({.relative_l2 = 1e30}, comparison).accepted);
  }
}

TEST_P(Comparator, refuses_an_output_that_was_never_written) {
  const SweepRow& row = GetParam();
  const Tensor untouched(row.dtype, {row.rows, row.cols});
  const Comparison against_itself = compare(untouched, untouched);
  EXPECT_EQ(against_itself.unwritten, row.rows * row.cols);
  EXPECT_FALSE(against_itself.same_bits());
  EXPECT_FALSE(bitwise_equal(untouched, untouched));
  const Tensor expected = drawn_tensor(row.seed).to(row.dtype);
  Tensor partly = expected.clone();
  const std::int64_t last = partly.elements() - 1;
  std::memset(partly.bytes() + std::size_t(last) * size_of(row.dtype), 0xFF, size_of(row.dtype));
  EXPECT_EQ(compare(expected, partly).first_unwritten, last);
  EXPECT_EQ(judge({.max_abs = 1e30}, compare(expected, partly)).metric, "written");
}

TEST_P(Comparator, accepts_a_wider_golden) {
  const SweepRow& row = GetParam();
  if (row.dtype == DType::fp64) {
    EXPECT_TRUE(bitwise_equal(drawn_tensor(row.seed), drawn_tensor(row.seed)));
    return;
  }
  const Tensor golden = drawn_tensor(row.seed), actual = golden.to(row.dtype);
  const Comparison comparison = compare(golden, actual);
  EXPECT_EQ(comparison.differing, 0) << "words are compared after rounding";
  EXPECT_EQ(comparison.max_ulp, 0u);
  EXPECT_TRUE(within({.max_ulp = 0}, golden, actual));
  EXPECT_FALSE(bitwise_equal(golden, actual)) << "bits of two types are never the same";
}

constexpr SweepRow kSweep[] = {
    {DType::bf16, 1, 1, 3},       {DType::bf16, 3, 2047, 5},   {DType::bf16, 2, 2048, 7},
    {DType::bf16, 129, 4097, 11}, {DType::fp16, 7, 911, 13},   {DType::fp32, 1, 1, 17},
    {DType::fp32, 5, 1021, 19},   {DType::fp32, 64, 4096, 23}, {DType::fp32, 65, 4099, 29},
    {DType::fp64, 3, 2049, 31},
};
INSTANTIATE_TEST_SUITE_P(host, Comparator, testing::ValuesIn(kSweep), sweep_name);

// ---- Zeros and integers.

struct ZeroRow {
  DType dtype;
};
void PrintTo(const ZeroRow& row, std::ostream* out) { *out << name_of(row.dtype); }
std::string zero_name(const testing::TestParamInfo<ZeroRow>& info) { return name_of(info.param.dtype); }

struct Zeros : testing::TestWithParam<ZeroRow> {};

TEST_P(Zeros, identical_all_zero_has_no_error) {
  const Tensor zeros = tensor_of(std::vector<float>(5000, 0.0f), GetParam().dtype);
  const Comparison comparison = compare(zeros, zeros);
  EXPECT_EQ(comparison.relative_l2, 0);
  EXPECT_EQ(comparison.max_abs_over_absmax, 0);
  EXPECT_EQ(comparison.cosine, 1);
  EXPECT_TRUE(comparison.same_bits());
  EXPECT_TRUE(bitwise_equal(zeros, zeros));
}

TEST_P(Zeros, negative_zero_is_counted_apart) {
  std::vector<float> values(5000, 0.0f);
  const Tensor expected = tensor_of(values, GetParam().dtype);
  values[4321] = -0.0f;
  const Tensor actual = tensor_of(values, GetParam().dtype);
  const Comparison comparison = compare(expected, actual);
  EXPECT_EQ(comparison.differing, 1);
  EXPECT_EQ(comparison.first_differing, 4321);
  EXPECT_EQ(comparison.negative_zero, 1);
  EXPECT_EQ(comparison.differing_values, 0);
  EXPECT_EQ(comparison.max_ulp, 0u);
  EXPECT_FALSE(bitwise_equal(expected, actual));
}
INSTANTIATE_TEST_SUITE_P(host, Zeros,
                         testing::Values(ZeroRow{DType::bf16}, ZeroRow{DType::fp16}, ZeroRow{DType::fp32},
                                         ZeroRow{DType::fp64}),
                         zero_name);

struct IntegerRow {
  const char* name;
  std::int64_t expected, actual;
  std::uint64_t steps;
};
void PrintTo(const IntegerRow& row, std::ostream* out) { *out << row.name; }
std::string integer_name(const testing::TestParamInfo<IntegerRow>& info) { return info.param.name; }

struct Integers : testing::TestWithParam<IntegerRow> {};

TEST_P(Integers, are_compared_exactly) {
  const auto filled = [](std::int64_t value) {
    Tensor tensor(DType::i64, {3});
    std::ranges::fill(tensor.values<std::int64_t>(), value);
    return tensor;
  };
  const Comparison comparison = compare(filled(GetParam().expected), filled(GetParam().actual));
  EXPECT_EQ(comparison.differing, GetParam().steps ? 3 : 0);
  EXPECT_EQ(comparison.max_ulp, GetParam().steps);
}

constexpr IntegerRow kIntegers[] = {
    {"equal", -1, -1, 0},
    {"beyond_double", (1LL << 53) + 1, 1LL << 53, 1},
    {"whole_range", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
     ~0ULL},
};
INSTANTIATE_TEST_SUITE_P(host, Integers, testing::ValuesIn(kIntegers), integer_name);

// ---- Guard bands.

struct GuardRow {
  const char* name;
  std::ptrdiff_t stray;  // byte written, counted from the first of the output; the output has 26
  bool outside;
};
void PrintTo(const GuardRow& row, std::ostream* out) { *out << row.name; }
std::string guard_name(const testing::TestParamInfo<GuardRow>& info) { return info.param.name; }

struct GuardBands : testing::TestWithParam<GuardRow> {};

TEST_P(GuardBands, notice_a_stray_byte) {
  GuardedOutput output(DType::bf16, {13});
  output.tensor().bytes()[GetParam().stray] = std::byte{0};
  EXPECT_EQ(bool(output.nothing_written_outside()), !GetParam().outside);
  EXPECT_FALSE(output.everything_written_inside());
  for (Bf16& value : output.tensor().values<Bf16>()) value = to_bf16(1.0f);
  EXPECT_TRUE(output.everything_written_inside());
}

constexpr GuardRow kGuards[] = {
    {"first_of_the_output", 0, false}, {"last_of_the_output", 25, false}, {"just_before", -1, true},
    {"far_before", -4096, true},       {"just_after", 26, true},          {"far_after", 26 + 4095, true},
};
INSTANTIATE_TEST_SUITE_P(host, GuardBands, testing::ValuesIn(kGuards), guard_name);

}  // namespace
}  // namespace h3
