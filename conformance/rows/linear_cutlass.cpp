// The projections' products, forward, dX and dW, against a second implementation: CUTLASS, other tiles and
// another matrix instruction, the same bytes.
#ifdef H3_HAVE_CUTLASS

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "conformance/claims.h"
#include "conformance/operands.h"
#include "conformance/rows/on_cuda.h"
#include "golden/cutlass/cutlass_product.h"
#include "kernels/cuda/device.h"
#include "kernels/linear.h"

namespace h3 {
namespace {

struct SecondRow {
  const char* row;
  std::int64_t rows, inputs, outputs;
};
std::string name_of(const SecondRow& row) {
  return fmt::format("{}_{}x{}x{}", row.row, row.rows, row.inputs, row.outputs);
}
void PrintTo(const SecondRow& row, std::ostream* out) { *out << name_of(row); }

struct LinearSecond : testing::TestWithParam<SecondRow> {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    const SecondRow& row = GetParam();
    const auto drawn = [](const char* name, const Shape& shape, int log2_std) {
      return cuda::upload(
          synthetic_activation(kOperandSeed, name, shape, DType::bf16, std::ldexp(1.0f, log2_std)));
    };
    x = drawn("second.x", {row.rows, row.inputs}, 0);
    weight = drawn("second.weight", {row.outputs, row.inputs}, -6);
    dy = drawn("second.dy", {row.rows, row.outputs}, 0);
  }
  using Product = void (*)(const Tensor&, const Tensor&, Tensor&, Stream);
  static testing::AssertionResult agree(Product strict, Product second, const Tensor& left,
                                        const Tensor& right, const Shape& shape) {
    Tensor ours = cuda::allocate(DType::bf16, shape), theirs = cuda::allocate(DType::bf16, shape);
    strict(left, right, ours, nullptr);
    second(left, right, theirs, nullptr);
    return bitwise_equal(cuda::download(theirs), cuda::download(ours));
  }
  Tensor x, weight, dy;
};

TEST_P(LinearSecond, computes_the_same_forward) {
  const Product strict = [](const Tensor& a, const Tensor& b, Tensor& y, Stream stream) {
    kernels::cuda::linear(a, b, nullptr, y, stream);
  };
  EXPECT_TRUE(agree(strict, second::cutlass_forward, x, weight, {x.rows(), weight.rows()}));
}

TEST_P(LinearSecond, computes_the_same_input_gradient) {
  EXPECT_TRUE(
      agree(kernels::cuda::linear_input_gradient, second::cutlass_input_gradient, dy, weight, x.shape()));
}

TEST_P(LinearSecond, computes_the_same_weight_gradient) {
  EXPECT_TRUE(
      agree(kernels::cuda::linear_weight_gradient, second::cutlass_weight_gradient, dy, x, weight.shape()));
}

// Depths in whole steps of 32: CUTLASS takes an incomplete step first, which is another order.
constexpr SecondRow kRows[] = {
    {"h3_qkv_gemm", 256, 5376, 7168},          {"h3_attention_o_gemm", 928, 7168, 5376},
    {"h3_ffn_gate_up_gemm", 256, 5376, 28672}, {"h3_ffn_down_gemm", 928, 14336, 5376},
    {"adaln_projection_3mod", 3, 2688, 96768}, {"h3_ffn_down_gemm", 2048, 64, 32},
};
INSTANTIATE_TEST_SUITE_P(rows_cutlass, LinearSecond, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace h3

#endif  // H3_HAVE_CUTLASS
