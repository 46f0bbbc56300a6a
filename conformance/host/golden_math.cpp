// The goldens' own exp, sin and cos: as good as a libm, and the same bits on every machine.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "conformance/host/golden_inputs.h"
#include "golden/math.h"
#include "model/digest.h"

namespace h3 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct FunctionRow {
  const char* name;
  double (*golden)(double);
  long double (*wide)(long double);
  double low, high;    // domain of the sweep
  const char* sha256;  // of the values of the sweep
};
void PrintTo(const FunctionRow& row, std::ostream* out) { *out << row.name; }

struct GoldenMath : testing::TestWithParam<FunctionRow> {
  static constexpr int kPoints = 200000;
  double point(int i) const {
    const auto& row = GetParam();
    return row.low + (row.high - row.low) * 0.5 * (1 + uniform(row.name, i));
  }
};

TEST_P(GoldenMath, agrees_with_a_wider_libm) {
  static_assert(LDBL_MANT_DIG > 53, "needs a long double wider than double");
  double worst = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = point(i);
    const long double exact = GetParam().wide(x);
    worst = std::max(worst, double(std::fabs((GetParam().golden(x) - exact) / exact)));
  }
  RecordProperty("measured", fmt::format("{:.2e}", worst));
  EXPECT_LT(worst, 0x1p-52);
  EXPECT_GT(worst, 0x1p-55) << "a comparison of something with itself";
}

TEST_P(GoldenMath, has_the_recorded_bits) {
  std::vector<double> values;
  for (int i = 0; i < kPoints; ++i) values.push_back(GetParam().golden(point(i)));
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(values))), GetParam().sha256);
}

const FunctionRow kFunctions[] = {
    {"exp_near_zero", golden::exp, std::exp, -1, 1,
     "fd325148c1b54d9387697f2c34d1703197be5d63aacd731590d64a6329ed2bf2"},
    {"exp_wide", golden::exp, std::exp, -700, 700,
     "8c778105c043c84c51ce8e7a86dab48aae30f67acea4e03905648c9850bd68d5"},
    {"sin_one_turn", golden::sin, std::sin, -3.2, 3.2,
     "6a9c4bfb0bb018ac436707bb77a189304be675985d5b95b353057e3d9475e30a"},
    {"sin_wide", golden::sin, std::sin, -1e5, 1e5,
     "4bfa800154347bba03877181b8699d55b4950cb5967c2ebbfd012ed66076593c"},
    {"cos_one_turn", golden::cos, std::cos, -3.2, 3.2,
     "ca71db0e63d482a5e2f4a9c6fdf68031ea16bd1eb44fd77d99e789c12cc629d4"},
    {"cos_wide", golden::cos, std::cos, -1e5, 1e5,
     "25d65b99b2b054040ec25384bc1118a01ed506cdc71cc92351fb2189351c152f"},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenMath, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

// FP32 multiples of pi/2 lose nearly all digits in the reduction: where a two-part pi/2 would show.
struct HardAngleRow {
  const char* name;
  double angle;
};
void PrintTo(const HardAngleRow& row, std::ostream* out) { *out << row.name; }

struct GoldenHardAngles : testing::TestWithParam<HardAngleRow> {};

TEST_P(GoldenHardAngles, keep_their_relative_accuracy) {
  const double x = GetParam().angle;
  const long double sine = std::sin((long double)x), cosine = std::cos((long double)x);
  EXPECT_LT(std::fabs((golden::sin(x) - sine) / sine), 0x1p-52);
  EXPECT_LT(std::fabs((golden::cos(x) - cosine) / cosine), 0x1p-52);
  EXPECT_EQ(golden::sin(-x), -golden::sin(x));
  EXPECT_EQ(golden::cos(-x), golden::cos(x));
}

const HardAngleRow kHardAngles[] = {
    {"pi", M_PI},
    {"half_pi", M_PI_2},
    {"pi_fp32", double(float(M_PI))},
    {"turns_11", 22.0},  // 7 pi and a little
    {"near_10000_quarters", double(float(10000 * M_PI_2))},
    {"near_50001_quarters", double(float(50001 * M_PI_2))},
    {"near_50001_quarters_fp64", 50001 * M_PI_2},
    {"limit", golden::kTrigonometricLimit},
    {"tiny", 1e-300},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenHardAngles, testing::ValuesIn(kHardAngles),
                         [](const auto& info) { return std::string(info.param.name); });

struct EdgeRow {
  const char* name;
  double (*golden)(double);
  double x, expected;  // NaN expects NaN
};
void PrintTo(const EdgeRow& row, std::ostream* out) { *out << row.name; }

struct GoldenMathEdges : testing::TestWithParam<EdgeRow> {};

TEST_P(GoldenMathEdges, are_exact) {
  const double value = GetParam().golden(GetParam().x), expected = GetParam().expected;
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(value)) << value;
  else
    EXPECT_EQ(value, expected);
}

const EdgeRow kEdges[] = {
    {"exp_0", golden::exp, 0, 1},
    {"exp_minus_infinity", golden::exp, -kInfinity, 0},
    {"exp_infinity", golden::exp, kInfinity, kInfinity},
    {"exp_overflows", golden::exp, 709.79, kInfinity},
    {"exp_smallest_subnormal", golden::exp, -745, 0x1p-1074},
    {"exp_underflows", golden::exp, -746, 0},
    {"exp_nan", golden::exp, NAN, NAN},
    {"sin_0", golden::sin, 0, 0},
    {"sin_nan", golden::sin, NAN, NAN},
    {"cos_0", golden::cos, 0, 1},
    {"cos_nan", golden::cos, NAN, NAN},
    {"silu_0", golden::silu, 0, 0},
    {"silu_large", golden::silu, 100, 100},
    {"silu_very_negative", golden::silu, -1000, 0},
    {"sigmoid_0", golden::sigmoid, 0, 0.5},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenMathEdges, testing::ValuesIn(kEdges),
                         [](const auto& info) { return std::string(info.param.name); });

struct GoldenMathLimits : testing::TestWithParam<double> {};

TEST_P(GoldenMathLimits, refuse_angles_beyond_the_reduction) {
  EXPECT_THROW(golden::sin(GetParam()), Error);
  EXPECT_THROW(golden::cos(GetParam()), Error);
}

INSTANTIATE_TEST_SUITE_P(host, GoldenMathLimits, testing::Values(1.00001e5, -1e6, kInfinity, -kInfinity),
                         [](const auto& info) { return "angle" + std::to_string(info.index); });

}  // namespace
}  // namespace h3
