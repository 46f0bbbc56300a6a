// RFC row h3_qk_rmsnorm_d128: every head of q and k, one weight.
#include "kernels/qk_norm.h"

#include "conformance/rows/on_cuda.h"
#include "golden/qk_norm.h"
#include "kernels/rms_norm.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct QkNorm : testing::TestWithParam<RowCase> {
  // One rounding. cols is heads * 128; odd seeds take the flat shape.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Shape shape = row.seed % 2 ? Shape{row.rows, row.cols} : Shape{row.rows, row.cols / 128, 128};
    const Tensor x = synthetic_activation(row.seed, "q", shape, row.dtype, 3);
    const Tensor weight = around_one(row.seed, "weight", {128}, row.dtype);
    return {{x},
            [weight](const auto& operands, Tensor& y) { kernels::qk_norm(operands[0], weight, 1e-5f, y); },
            golden::qk_norm(x, weight, 1e-5f),
            row.dtype,
            after_roundings(1, row.dtype),
            H3_ON_CUDA([weight](const auto& operands, Tensor& y) {
              kernels::cuda::qk_norm(cuda::upload(operands[0]), cuda::upload(weight), 1e-5f, y, nullptr);
            })};
  }
};

TEST_P(QkNorm, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(QkNorm, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(QkNorm, rows_alone_equal_rows_in_a_batch) { EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem())); }
TEST_P(QkNorm, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(QkNorm, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(QkNorm, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_qk_rmsnorm_d128", 264, 56 * 128, DType::bf16, 8},
    {"h3_qk_rmsnorm_d128", 71, 56 * 128, DType::bf16, 7},
    {"h3_qk_rmsnorm_d128", 71, 2 * 128, DType::fp16, 12},
};
INSTANTIATE_TEST_SUITE_P(rows, QkNorm, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(QkNorm, kRows);

// ---- backward

// One rounding of either gradient; FP32 in between is far below.
struct QkNormBackward : testing::TestWithParam<RowCase> {
  static RowProblem problem(bool of_the_weight) {
    const RowCase& row = GetParam();
    const Shape shape = row.seed % 2 ? Shape{row.rows, row.cols} : Shape{row.rows, row.cols / 128, 128};
    const Tensor x = synthetic_activation(row.seed, "q", shape, row.dtype, 3);
    const Tensor dy = synthetic_activation(row.seed, "dq", shape, row.dtype);
    const Tensor weight = around_one(row.seed, "weight", {128}, row.dtype);
    const auto outputs = [=](const Tensor& y, const Tensor& d) {
      return outputs_with(y, of_the_weight, {{row.dtype, d.shape()}, {row.dtype, {128}}});
    };
    const auto golden = golden::qk_norm_backward(x, weight, 1e-5f, dy);
    return {{dy, x},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              kernels::qk_norm_backward(operands[1], weight, 1e-5f, operands[0], out[0], out[1]);
            },
            of_the_weight ? golden.weight : golden.x,
            row.dtype,
            after_roundings(1, row.dtype),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              Tensor memory = workspace(kernels::cuda::rms_norm_workspace(operands[0].elements() / 128, 128));
              kernels::cuda::qk_norm_backward(cuda::upload(operands[1]), cuda::upload(weight), 1e-5f,
                                              cuda::upload(operands[0]), out[0], out[1], memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(false); }
};
struct QkNormSums : QkNormBackward {
  static RowProblem problem() { return QkNormBackward::problem(true); }
};
H3_ROW_CLAIMS(QkNormBackward)
H3_SUM_CLAIMS(QkNormSums)
INSTANTIATE_TEST_SUITE_P(rows, QkNormBackward, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(QkNormBackward, kRows);

constexpr RowCase kSums[] = {
    {"h3_qk_rmsnorm_d128", 264, 56 * 128, DType::bf16, 8},
    {"h3_qk_rmsnorm_d128", 1, 128},
    {"h3_qk_rmsnorm_d128", 127, 128, DType::fp16},
    {"h3_qk_rmsnorm_d128", 43, 3 * 128},    // 129 heads
    {"h3_qk_rmsnorm_d128", 300, 56 * 128},  // 16800 heads: more than 128 runs
};
INSTANTIATE_TEST_SUITE_P(rows, QkNormSums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(QkNormSums, kSums);

// ---- bad input

struct QkNormBadInput : testing::TestWithParam<BadInput> {};
TEST_P(QkNormBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"a_part_of_a_head", "expected whole heads of 6 channels",
     [](Tensor& y) {
       kernels::qk_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {6}, 1), 1e-5f, y);
     }},
    {"weight_of_another_dtype", "qk_norm: weight is fp32, expected bf16",
     [](Tensor& y) {
       kernels::qk_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::fp32, {8}, 1), 1e-5f, y);
     }},
    {"gradient_of_another_shape", "qk_norm_backward: dy is 2x4, expected 2x8",
     [](Tensor& y) {
       Tensor dweight(DType::bf16, {8});
       kernels::qk_norm_backward(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), 1e-5f,
                                 filled(DType::bf16, {2, 4}, 1), y, dweight);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, QkNormBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
