// The GPU's special functions on this CPU: known values, accuracy, and the GPU's own answers over whole
// blocks of inputs, by checksum.
#include "kernels/numerics/device_functions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "fixtures/checksum.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "kernels/numerics/device_tables.h"
#include "model/digest.h"
#include "model/parallel.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using numerics::cuda_cosf, numerics::cuda_expf, numerics::cuda_sinf;
using numerics::ex2_approx, numerics::lg2_approx, numerics::rcp_approx, numerics::rsqrt_approx;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::bit_cast<float>(0x7fffffffu);  // the GPU's

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

struct Function {
  const char* name;
  float (*at)(float);
};
constexpr Function kEx2{"ex2", ex2_approx}, kRcp{"rcp", rcp_approx}, kRsqrt{"rsqrt", rsqrt_approx},
    kLg2{"lg2", lg2_approx}, kExpf{"expf", cuda_expf}, kSinf{"sinf", cuda_sinf}, kCosf{"cosf", cuda_cosf};

std::string name_of_input(float x) { return fmt::format("{:08x}", bits_of(x)); }

// ---- known values

struct ValueRow {
  Function function;
  float x, y;
};
std::string name_of(const ValueRow& row) {
  return std::string(row.function.name) + "_" + name_of_input(row.x);
}
void PrintTo(const ValueRow& row, std::ostream* out) { *out << name_of(row); }

struct DeviceFunctionValue : testing::TestWithParam<ValueRow> {};

TEST_P(DeviceFunctionValue, is_the_known_one) {
  const ValueRow& row = GetParam();
  EXPECT_EQ(bits_of(row.function.at(row.x)), bits_of(row.y))
      << row.function.at(row.x) << ", expected " << row.y;
}

constexpr float kSubnormal = 0x1p-127f;
const ValueRow kValues[] = {
    // Instructions: subnormals are read and written as zero.
    {kEx2, 0.0f, 1},
    {kEx2, -0.0f, 1},
    {kEx2, kSubnormal, 1},
    {kEx2, -kSubnormal, 1},
    {kEx2, 1, 2},
    {kEx2, -1, 0.5f},
    {kEx2, 127, 0x1p127f},
    {kEx2, 128, kInf},
    {kEx2, kInf, kInf},
    {kEx2, -126, 0x1p-126f},
    {kEx2, -126.5f, 0},
    {kEx2, -127, 0},
    {kEx2, -kInf, 0},
    {kEx2, kNaN, kNaN},
    {kRcp, 1, 1},
    {kRcp, -2, -0.5f},
    {kRcp, 0.0f, kInf},
    {kRcp, -0.0f, -kInf},
    {kRcp, kSubnormal, kInf},
    {kRcp, -kSubnormal, -kInf},
    {kRcp, 0x1p-126f, 0x1p126f},
    {kRcp, 0x1p126f, 0x1p-126f},
    {kRcp, 0x1p127f, 0},
    {kRcp, -0x1p127f, -0.0f},
    {kRcp, kInf, 0},
    {kRcp, -kInf, -0.0f},
    {kRcp, kNaN, kNaN},
    {kRsqrt, 1, 1},
    {kRsqrt, 4, 0.5f},
    {kRsqrt, 0x1p-126f, 0x1p63f},
    {kRsqrt, 0.0f, kInf},
    {kRsqrt, -0.0f, -kInf},
    {kRsqrt, kSubnormal, kInf},
    {kRsqrt, -kSubnormal, -kInf},
    {kRsqrt, -1, kNaN},
    {kRsqrt, kInf, 0},
    {kRsqrt, -kInf, kNaN},
    {kRsqrt, kNaN, kNaN},
    {kLg2, 1, 0},
    {kLg2, 2, 1},
    {kLg2, 0x1p127f, 127},
    {kLg2, 3, 0x1.95c01ap+0f},
    {kLg2, kInf, kInf},
    {kLg2, 0.5f, kNaN},  // not what the instruction gives: nobody takes the logarithm of less than one
    {kLg2, kNaN, kNaN},
    // The one's complement of a negative input shows: 2^-0.5 comes out lower than half of 2^0.5.
    {kEx2, 0.5f, 0x1.6a09e6p+0f},
    {kEx2, -0.5f, 0x1.6a09e4p-1f},
    // Software: subnormals are kept.
    {kExpf, 0, 1},
    {kExpf, 1, 0x1.5bf0a8p+1f},
    {kExpf, 100, kInf},
    {kExpf, -200, 0},
    {kExpf, kInf, kInf},
    {kExpf, -kInf, 0},
    {kExpf, kNaN, kNaN},
    {kSinf, 0, 0},
    {kSinf, -0.0f, -0.0f},
    {kSinf, 0x1p-140f, 0x1p-140f},
    {kSinf, kInf, kNaN},
    {kSinf, -kInf, kNaN},
    {kSinf, kNaN, kNaN},
    {kCosf, 0, 1},
    {kCosf, 0x1p-140f, 1},
    {kCosf, kInf, kNaN},
    {kCosf, kNaN, kNaN},
};
INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionValue, testing::ValuesIn(kValues),
                         [](const auto& info) { return name_of(info.param); });

// ---- accuracy, over a spread of inputs

struct AccuracyRow {
  Function function;
  double (*truth)(double);
  float from, to;  // both signs; magnitudes spread evenly over the exponents
  bool both_signs;
  std::int64_t ulps;  // from the correctly rounded value
};
void PrintTo(const AccuracyRow& row, std::ostream* out) { *out << row.function.name; }

struct DeviceFunctionAccuracy : testing::TestWithParam<AccuracyRow> {};

TEST_P(DeviceFunctionAccuracy, stays_within_its_units) {
  const AccuracyRow& row = GetParam();
  const std::uint32_t first = bits_of(row.from), last = bits_of(row.to);
  std::int64_t worst = 0;
  float worst_at = 0;
  for (std::uint64_t bits = first; bits <= last; bits += 4099) {
    for (const float sign : {1.0f, -1.0f}) {
      const float x = sign * std::bit_cast<float>(std::uint32_t(bits));
      if (x < 0 && !row.both_signs) continue;
      const float y = row.function.at(x), truth = float(row.truth(x));
      ASSERT_TRUE(std::isfinite(y) && std::signbit(y) == std::signbit(truth)) << "at " << name_of_input(x);
      const std::int64_t error = std::abs(std::int64_t(bits_of(y)) - std::int64_t(bits_of(truth)));
      if (error > worst) worst = error, worst_at = x;
    }
  }
  RecordProperty("limit", fmt::format("{}", row.ulps));
  RecordProperty("measured", fmt::format("{}", worst));
  EXPECT_LE(worst, row.ulps) << "at " << name_of_input(worst_at);
}

// NVIDIA's manuals give 2 units for ex2, rsqrt, sinf and cosf and 1 for rcp; expf inherits ex2's. For lg2
// they give 2^-22 of absolute error on [0.5, 2): from 2 on less than two units.
const AccuracyRow kAccuracies[] = {
    {kEx2, [](double x) { return std::exp2(x); }, 0x1p-30f, 125.9f, true, 2},
    {kRcp, [](double x) { return 1 / x; }, 0x1p-126f, 0x1p125f, true, 1},
    {kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 0x1p-126f, 0x1p127f, false, 2},
    {kLg2, [](double x) { return std::log2(x); }, 2, 0x1p127f, false, 2},
    {kExpf, [](double x) { return std::exp(x); }, 0x1p-30f, 87, true, 2},
    {kSinf, [](double x) { return std::sin(x); }, 0x1p-30f, 0x1.fffffep127f, true, 2},
    {kCosf, [](double x) { return std::cos(x); }, 0x1p-30f, 0x1.fffffep127f, true, 2},
};
INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionAccuracy, testing::ValuesIn(kAccuracies),
                         [](const auto& info) { return info.param.function.name; });

// ---- many at once

struct BulkRow {
  Function function;
  void (*bulk)(const float*, float*, std::size_t);
};
void PrintTo(const BulkRow& row, std::ostream* out) { *out << row.function.name; }

struct DeviceFunctionBulk : testing::TestWithParam<BulkRow> {};

TEST_P(DeviceFunctionBulk, gives_the_same_bits) {
  const std::int64_t count = 100'003;  // no multiple of a vector or a chunk
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix64(std::uint64_t(i) * kSyntheticStep);
    // Half of them any bits at all, half of a size that attention and silu see.
    x[std::size_t(i)] = i % 2 ? std::bit_cast<float>(std::uint32_t(word)) : float(word >> 40) * 0x1p-19f - 16;
  }
  std::vector<float> y(x.size()), in_place = x;
  GetParam().bulk(x.data(), y.data(), x.size());
  GetParam().bulk(in_place.data(), in_place.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t alone = bits_of(GetParam().function.at(x[i]));
    ASSERT_EQ(bits_of(y[i]), alone) << name_of_input(x[i]);
    ASSERT_EQ(bits_of(in_place[i]), alone) << name_of_input(x[i]);
  }
}

const BulkRow kBulks[] = {{kEx2, ex2_approx}, {{"silu", numerics::silu_fp32}, numerics::silu_fp32}};
INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionBulk, testing::ValuesIn(kBulks),
                         [](const auto& info) { return info.param.function.name; });

// ---- the GPU's own answers

// What the capture proved on the GPU, over all 2^32 inputs, before it wrote the tables.
struct DeviceFunctionClaim : testing::TestWithParam<Function> {};
void PrintTo(const Function& function, std::ostream* out) { *out << function.name; }

TEST_P(DeviceFunctionClaim, held_on_the_gpu_for_every_input) {
  const Hdf5Reader file(fixture_path("device_functions.h5").string());
  const std::string name = GetParam().name;
  ASSERT_TRUE(file.contains("claims") && file.has_attribute("claims", name + "_inputs"))
      << "the tables were not captured by fixtures/capture_device_functions.cu";
  const std::int64_t below_one = name == "lg2" ? 0x3f800000ll + 0x7f800001ll : 0;
  EXPECT_EQ(file.int_attribute("claims", name + "_inputs"), (std::int64_t(1) << 32) - below_one);
  EXPECT_EQ(file.int_attribute("claims", name + "_mismatches"), 0);
}

const Function kClaimed[] = {kEx2, kRcp, kRsqrt, kLg2, kExpf};
INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionClaim, testing::ValuesIn(kClaimed),
                         [](const auto& info) { return info.param.name; });

struct BlockRow {
  Function function;
  std::uint32_t block;  // the upper eight bits of its 2^24 inputs
};
std::string name_of(const BlockRow& row) { return fmt::format("{}_{:02x}", row.function.name, row.block); }
void PrintTo(const BlockRow& row, std::ostream* out) { *out << name_of(row); }

std::uint64_t checksum_of(const BlockRow& row, std::uint32_t flipped_bit_at = ~0u) {
  std::atomic<std::uint64_t> sum = 0;
  parallel_for(0, std::int64_t(kChecksumBlockInputs), 1 << 16, [&](std::int64_t first, std::int64_t last) {
    std::uint64_t part = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const std::uint32_t input = row.block << 24 | std::uint32_t(i);
      std::uint32_t output = bits_of(row.function.at(std::bit_cast<float>(input)));
      if (input == flipped_bit_at) output ^= 1;
      part += checksum_term(input, output);
    }
    sum += part;
  });
  return sum;
}

struct DeviceFunctionBlock : testing::TestWithParam<BlockRow> {
  static std::vector<std::uint64_t> recorded() {
    const Hdf5Reader file(fixture_path("device_functions.h5").string());
    const std::string name = std::string("checksums/") + GetParam().function.name;
    return file.contains(name) ? file.read_vector<std::uint64_t>(name) : std::vector<std::uint64_t>();
  }
};

TEST_P(DeviceFunctionBlock, equals_the_gpu_on_every_input) {
  const auto sums = recorded();
  ASSERT_EQ(sums.size(), kChecksumBlocks)
      << "the tables were not captured by fixtures/capture_device_functions.cu";
  EXPECT_EQ(checksum_of(GetParam()), sums[GetParam().block]);
}

// Per function: the subnormals and the smallest normals, around one, the range that the model uses, where
// another reduction begins (47: 105615 lies in it), the largest with infinity and NaN, and negative ones.
const BlockRow kBlocks[] = {
    {kEx2, 0x00},   {kEx2, 0x3f},  {kEx2, 0x42},   {kEx2, 0x7f},   {kEx2, 0xbf},   {kEx2, 0xc1},
    {kEx2, 0xc2},   {kEx2, 0xc3},  {kRcp, 0x00},   {kRcp, 0x3f},   {kRcp, 0x45},   {kRcp, 0x7e},
    {kRcp, 0x7f},   {kRcp, 0xbf},  {kRsqrt, 0x00}, {kRsqrt, 0x37}, {kRsqrt, 0x3f}, {kRsqrt, 0x7f},
    {kRsqrt, 0xbf}, {kLg2, 0x40},  {kLg2, 0x45},   {kLg2, 0x7f},   {kExpf, 0x00},  {kExpf, 0x3f},
    {kExpf, 0x42},  {kExpf, 0xbf}, {kExpf, 0xc1},  {kExpf, 0xc2},  {kExpf, 0xff},  {kSinf, 0x00},
    {kSinf, 0x3c},  {kSinf, 0x3f}, {kSinf, 0x40},  {kSinf, 0x44},  {kSinf, 0x47},  {kSinf, 0x5a},
    {kSinf, 0x7f},  {kSinf, 0xc7}, {kCosf, 0x00},  {kCosf, 0x3c},  {kCosf, 0x3f},  {kCosf, 0x40},
    {kCosf, 0x44},  {kCosf, 0x47}, {kCosf, 0x5a},  {kCosf, 0x7f},  {kCosf, 0xc7},
};
INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionBlock, testing::ValuesIn(kBlocks),
                         [](const auto& info) { return name_of(info.param); });

struct DeviceFunctionChecksum : testing::TestWithParam<BlockRow> {};

TEST_P(DeviceFunctionChecksum, notices_one_wrong_bit_of_one_input) {
  const std::uint64_t sum = checksum_of(GetParam());
  EXPECT_EQ(sum, checksum_of(GetParam()));
  EXPECT_NE(sum, checksum_of(GetParam(), GetParam().block << 24 | 0x123456));
}

INSTANTIATE_TEST_SUITE_P(host, DeviceFunctionChecksum, testing::Values(BlockRow{kRcp, 0x3f}),
                         [](const auto& info) { return name_of(info.param); });

// ---- damaged tables

struct DamageRow {
  const char* name;
  std::string message;
  std::size_t entries;  // in the file; 9 are asked for
  bool wrong_digest;
};
void PrintTo(const DamageRow& row, std::ostream* out) { *out << row.name; }

struct DamagedTable : testing::TestWithParam<DamageRow> {};

TEST_P(DamagedTable, is_refused_in_one_line) {
  const DamageRow& row = GetParam();
  const std::string path = testing::TempDir() + "h3_table_" + row.name + ".h5";
  if (row.entries > 0) {
    std::vector<std::uint32_t> bits(row.entries);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = 0x3f800000u + 2 * std::uint32_t(i);
    Hdf5Writer file(path);
    file.write_vector("ex2", std::vector<std::int8_t>(row.entries - 1, 2));
    file.attribute("ex2", "first_bits", std::int64_t(bits[0]));
    if (row.wrong_digest) bits.back() += 1;
    file.attribute("ex2", "table_sha256", sha256_hex(std::as_bytes(std::span(bits))));
    file.close();
  }
  std::string line;
  try {
    const auto table = numerics::captured_table<std::int8_t, std::uint32_t>(path, "ex2", 9);
    EXPECT_EQ(table.back(), 0x3f800010u);
  } catch (const Error& error) {
    line = error.what();
  }
  std::remove(path.c_str());
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_NE(line.find(row.message), std::string::npos)
      << "'" << line << "' does not say '" << row.message << "'";
}

const DamageRow kDamages[] = {
    {"sound", "", 9, false},
    {"absent", "cannot be read", 0, false},
    {"short", "ex2 holds 8 entries, expected 9", 8, false},
    {"changed", "ex2 decodes to sha256", 9, true},
};
INSTANTIATE_TEST_SUITE_P(host, DamagedTable, testing::ValuesIn(kDamages),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
