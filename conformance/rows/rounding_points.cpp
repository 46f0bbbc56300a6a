// Roundings that a tolerance cannot see: operands for which one rounding more, less or elsewhere is another
// word. By hand, on the CPU alone.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "kernels/fp32_projection.h"
#include "kernels/gate_residual.h"
#include "kernels/lora_linear.h"
#include "kernels/ode_step.h"
#include "kernels/rms_norm.h"

namespace h3 {
namespace {

Tensor of(DType dtype, const Shape& shape, std::initializer_list<float> values) {
  Tensor tensor(DType::fp32, shape);
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return tensor.to(dtype);
}

Tensor rows_of_one_table(std::int64_t rows) {
  Tensor index(DType::i64, {rows});
  std::memset(index.bytes(), 0, index.size_bytes());
  return index;
}

constexpr DType kBf16 = DType::bf16, kFp32 = DType::fp32;
constexpr float kStep = 1 + 0x1p-7f, kSquare = 1 + 0x1p-6f;  // kStep^2 = kSquare + 2^-14, kSquare in BF16

float gated() {
  Tensor y(kBf16, {1, 1});
  kernels::gate_residual(of(kBf16, {1, 1}, {-kSquare}), of(kBf16, {1, 1}, {kStep}),
                         {of(kBf16, {1, 1}, {kStep}), 0}, rows_of_one_table(1), y);
  return y.at(0);
}

float gate_gradient() {
  Tensor dbranch(kBf16, {2, 1}), dgate(kBf16, {1, 1});
  kernels::gate_residual_backward(of(kBf16, {2, 1}, {kStep, -kSquare}), {of(kBf16, {1, 1}, {1}), 0},
                                  rows_of_one_table(2), of(kBf16, {2, 1}, {kStep, 1}), dbranch, {dgate, 0});
  return dgate.at(0);
}

constexpr float kFine = 1 + 0x1p-12f;  // its square is 1 + 2^-11 + 2^-24

float fp32_product() {
  Tensor y(kFp32, {1, 1});
  kernels::fp32_projection(of(kFp32, {1, 2}, {1, kFine}), of(kFp32, {1, 2}, {-(1 + 0x1p-11f), kFine}),
                           of(kFp32, {1}, {0}), y);
  return y.at(0);
}

float fp32_input_gradient() {
  Tensor dx(kFp32, {1, 1});
  kernels::fp32_input_gradient(of(kFp32, {1, 2}, {1, kFine}), of(kFp32, {2, 1}, {-(1 + 0x1p-11f), kFine}),
                               dx);
  return dx.at(0);
}

float lora_branch() {  // h = b = kStep and scale 3: R(R(h b) 3), not R(R(h 3) b)
  Tensor y(kBf16, {1, 1});
  kernels::lora_linear(of(kBf16, {1, 1}, {1}), of(kBf16, {1, 1}, {0}), nullptr,
                       {of(kBf16, {1, 1}, {kStep}), of(kBf16, {1, 1}, {kStep}), 3}, y);
  return y.at(0);
}

float noise_level() {  // of the last step, from the timestep
  const float sigma = 0.1f, t = 1 - sigma;
  Tensor next(kFp32, {1, 1});
  kernels::ode_step(of(kFp32, {1, 1}, {0}), of(kFp32, {1, 1}, {1}), of(kFp32, {1}, {t}),
                    of(kFp32, {1}, {sigma}), of(kFp32, {1}, {0}), next);
  return next.at(0);
}

float fp32_norm() {  // the sum of squares is 0x1.001002p+0; with the square rounded before, 0x1.0010p+0
  Tensor y(kFp32, {1, 4});
  kernels::rms_norm(of(kFp32, {1, 4}, {1, 0x1.0008p-6f, 0, 0}), of(kFp32, {4}, {1, 1, 1, 1}), 0, y);
  return y.at(0);
}

struct RoundingRow {
  const char* name;
  float (*run)();
  float expected;
};
void PrintTo(const RoundingRow& row, std::ostream* out) { *out << row.name; }

struct RoundingPoints : testing::TestWithParam<RoundingRow> {};

TEST_P(RoundingPoints, are_where_the_header_says) { EXPECT_EQ(GetParam().run(), GetParam().expected); }

const RoundingRow kRows[] = {
    {"gate_times_branch_before_the_sum", gated, 0},
    {"terms_of_the_gate_gradient", gate_gradient, 0},
    {"none_between_product_and_sum_in_fp32", fp32_product, 0x1p-24f},
    {"none_between_product_and_sum_of_an_fp32_gradient", fp32_input_gradient, 0x1p-24f},
    {"none_between_square_and_sum_of_an_fp32_norm", fp32_norm, 0x1.ffeffep+0f},
    {"noise_level_from_the_timestep", noise_level, 0x1.9999ap-4f},
    {"lora_branch_before_its_scale", lora_branch, 3.046875f},
};
INSTANTIATE_TEST_SUITE_P(rows, RoundingPoints, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
