// The power of bounds: what the smallest noticed fault is, and that a bound without power is refused.
#include "harness/power/power.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

namespace h3 {
namespace {

// Values between centre - spread and centre + spread.
Tensor golden_of(std::int64_t rows, std::int64_t cols, float centre = 0, float spread = 1) {
  Tensor golden(DType::fp32, {rows, cols});
  for (std::int64_t i = 0; i < golden.elements(); ++i) {
    const std::uint64_t x = std::uint64_t(i + 1) * 0x9E3779B97F4A7C15;
    golden.data<float>()[i] = centre + spread * float(std::int64_t(x ^ x << 21) >> 40) * 0x1p-23f;
  }
  return golden;
}

struct PowerRow {
  const char* name;
  Bound bound;
  std::int64_t rows, cols;
  DType stored_as;
  int smallest_scale;
};
void PrintTo(const PowerRow& row, std::ostream* out) { *out << row.name; }
std::string power_name(const testing::TestParamInfo<PowerRow>& info) { return info.param.name; }

struct BoundPower : testing::TestWithParam<PowerRow> {};

TEST_P(BoundPower, is_the_smallest_noticed_fault) {
  const PowerRow& row = GetParam();
  const Power power = power_of(row.bound, golden_of(row.rows, row.cols), row.stored_as);
  EXPECT_EQ(power.smallest_scale, row.smallest_scale) << power.summary();
  const auto caught = [&](const char* name) {
    return std::ranges::any_of(power.faults,
                               [&](const PlantedFault& fault) { return fault.name == name && fault.caught; });
  };
  for (const char* name : {"zeros", "doubled", "rows_permuted", "one_element_huge"})
    EXPECT_TRUE(caught(name)) << name;
}

// Scaling by 1 + 2^-k moves an FP32 tensor by a relative L2 of 2^-k.
const PowerRow kPowers[] = {
    {"relative_l2_1e_2", {.relative_l2 = 1e-2}, 17, 64, DType::fp32, 6},
    {"relative_l2_1e_3", {.relative_l2 = 1e-3}, 17, 64, DType::fp32, 9},
    {"relative_l2_1e_5", {.relative_l2 = 1e-5}, 17, 64, DType::fp32, 16},
    {"one_row_permutes_its_columns", {.relative_l2 = 1e-2}, 1, 512, DType::fp32, 6},
    {"bit_exact_in_fp64", {.max_ulp = 0}, 5, 33, DType::fp64, 52},
};
INSTANTIATE_TEST_SUITE_P(host, BoundPower, testing::ValuesIn(kPowers), power_name);

struct DefectRow {
  const char* name;
  Bound bound;
  float centre, spread;
  DType stored_as;
  const char* reason;
};
void PrintTo(const DefectRow& row, std::ostream* out) { *out << row.name; }
std::string defect_name(const testing::TestParamInfo<DefectRow>& info) { return info.param.name; }

struct PowerlessBounds : testing::TestWithParam<DefectRow> {};

TEST_P(PowerlessBounds, are_refused) {
  try {
    const DefectRow& row = GetParam();
    power_of(row.bound, golden_of(9, 40, row.centre, row.spread), row.stored_as);
    FAIL() << "the bound was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().reason), std::string::npos) << error.what();
  }
}

const DefectRow kDefects[] = {
    {"accepts_zeros", {.relative_l2 = 1.0}, 0, 1, DType::fp32, "accepts zeros"},
    {"accepts_zeros_by_absolute_error", {.max_abs = 2}, 0, 1, DType::fp32, "accepts zeros"},
    {"accepts_doubling", {.max_ulp = 1u << 24}, 0, 1, DType::fp32, "accepts doubled"},
    {"accepts_a_permutation", {.max_abs = 0.5}, 1, 0.01f, DType::fp32, "accepts rows_permuted"},
    {"refuses_the_golden_itself", {.max_abs = 1e-9}, 0, 1, DType::bf16, "refuses the golden itself"},
    {"states_no_limit", {}, 0, 1, DType::fp32, "states no limit"},
};
INSTANTIATE_TEST_SUITE_P(host, PowerlessBounds, testing::ValuesIn(kDefects), defect_name);

}  // namespace
}  // namespace h3
