// Tensors and element types: what every other case builds on.
#include "model/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <ostream>

namespace h3 {
namespace {

struct TypeRow {
  DType dtype;
  std::size_t bytes;
};
void PrintTo(const TypeRow& row, std::ostream* out) { *out << name_of(row.dtype); }
std::string type_name(const testing::TestParamInfo<TypeRow>& info) { return name_of(info.param.dtype); }

struct ElementTypes : testing::TestWithParam<TypeRow> {};

TEST_P(ElementTypes, start_poisoned) {
  const Tensor tensor(GetParam().dtype, {3, 5});
  ASSERT_EQ(tensor.size_bytes(), 15 * GetParam().bytes);
  for (const std::byte byte : tensor.byte_span()) ASSERT_EQ(byte, std::byte{0xFF});
}

TEST_P(ElementTypes, clone_is_deep_and_views_share) {
  Tensor tensor(GetParam().dtype, {4, 2});
  Tensor copy = tensor.clone();
  Tensor view = tensor.row_range(1, 2);
  view.bytes()[0] = std::byte{0x11};
  EXPECT_EQ(tensor.bytes()[2 * GetParam().bytes], std::byte{0x11});
  EXPECT_EQ(copy.bytes()[2 * GetParam().bytes], std::byte{0xFF});
}

INSTANTIATE_TEST_SUITE_P(host, ElementTypes,
                         testing::Values(TypeRow{DType::bf16, 2}, TypeRow{DType::fp16, 2},
                                         TypeRow{DType::fp32, 4}, TypeRow{DType::fp64, 8},
                                         TypeRow{DType::i64, 8}),
                         type_name);

struct RoundingRow {
  const char* name;
  float value;
  std::uint16_t word;
};
void PrintTo(const RoundingRow& row, std::ostream* out) { *out << row.name; }
std::string rounding_name(const testing::TestParamInfo<RoundingRow>& info) { return info.param.name; }

struct Bf16Rounding : testing::TestWithParam<RoundingRow> {};

TEST_P(Bf16Rounding, is_to_nearest_even) {
  EXPECT_EQ(std::uint16_t(to_bf16(GetParam().value)), GetParam().word);
}

constexpr RoundingRow kRoundings[] = {
    {"one", 1.0f, 0x3f80},
    {"tie_goes_to_even_down", 1.00390625f, 0x3f80},
    {"tie_goes_to_even_up", 1.01171875f, 0x3f82},
    {"negative_zero_keeps_its_sign", -0.0f, 0x8000},
    {"largest_float_overflows", std::numeric_limits<float>::max(), 0x7f80},
    {"nan_is_the_gpu_nan", std::numeric_limits<float>::quiet_NaN(), 0x7fff},
    {"subnormals_survive", 0x1p-133f, 0x0001},
};
INSTANTIATE_TEST_SUITE_P(host, Bf16Rounding, testing::ValuesIn(kRoundings), rounding_name);

}  // namespace
}  // namespace h3
