// RFC row h3_rmsnorm, plain: bf16, fp16 and fp32.
#include "kernels/rms_norm.h"

#include "conformance/rows/on_cuda.h"
#include "golden/rms_norm.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct RmsNorm : testing::TestWithParam<RowCase> {
  // R of an FP32 value that errs by the approximate root (2^-22.9), two products and half the error of the
  // sum: about 2^-22 in all, which shows in fp32 only.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype, 1, true);
    const Tensor weight = around_one(row.seed, "weight", {row.cols}, row.dtype);
    return {{x},
            [weight](const auto& operands, Tensor& y) { kernels::rms_norm(operands[0], weight, kEps, y); },
            golden::rms_norm(x, weight, kEps),
            row.dtype,
            row.dtype == DType::fp32 ? Bound{.relative_l2 = 0x1p-22} : after_roundings(1, row.dtype),
            H3_ON_CUDA([weight](const auto& operands, Tensor& y) {
              kernels::cuda::rms_norm(cuda::upload(operands[0]), cuda::upload(weight), kEps, y, nullptr);
            })};
  }
  static constexpr float kEps = 1e-5f;
};

TEST_P(RmsNorm, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(RmsNorm, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(RmsNorm, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(RmsNorm, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(RmsNorm, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(RmsNorm, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_rmsnorm", 264, 5376},
    {"h3_rmsnorm", 264, 5376, DType::fp16},
    {"h3_rmsnorm", 264, 5376, DType::fp32},
    {"h3_rmsnorm", 71, 128},                  // one vector in each of the first 32 partials
    {"h3_rmsnorm", 33, 24, DType::bf16, 11},  // less than a vector per lane of the first warp
    {"h3_rmsnorm", 5, 516, DType::fp32, 11},  // one vector more than there are partials
};
INSTANTIATE_TEST_SUITE_P(rows, RmsNorm, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(RmsNorm, kRows);

// ---- what it does at the edges

struct EdgeRow {
  const char* name;
  double value;  // of every element of x
  double y;      // for a weight of 1
};
void PrintTo(const EdgeRow& row, std::ostream* out) { *out << row.name; }

struct RmsNormEdge : testing::TestWithParam<EdgeRow> {};

TEST_P(RmsNormEdge, gives_the_known_value) {
  const EdgeRow& row = GetParam();
  Tensor y(DType::bf16, {1, 128});
  kernels::rms_norm(filled(DType::bf16, {1, 128}, row.value), filled(DType::bf16, {128}, 1), 1e-5f, y);
  EXPECT_TRUE(bitwise_equal(filled(DType::bf16, {1, 128}, row.y), y));
}

const EdgeRow kEdges[] = {
    {"zeros", 0, 0},                   // eps keeps the root finite
    {"ones", 1, 1},                    // 1 / sqrt(1 + 1e-5) rounds to 1
    {"negative", -4096, -1},           //
    {"tiny", 0x1p-40, 0x1.3cp-32},     // x / sqrt(eps)
    {"squares_overflow", 0x1p100, 0},  // the mean is infinite, its root's reciprocal 0
};
INSTANTIATE_TEST_SUITE_P(rows, RmsNormEdge, testing::ValuesIn(kEdges),
                         [](const auto& info) { return info.param.name; });

// ---- backward

// One rounding of either gradient. In fp32 dx errs by the root, the sum and four products, a quarter of a
// step each: 2^-22; a sum of n rows by its additions, sqrt(n) 2^-25 of the longest chain's 128 steps.
struct RmsNormBackward : testing::TestWithParam<RowCase> {
  static RowProblem problem(bool of_the_weight) {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype, 1, true);
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, row.cols}, row.dtype);
    const Tensor weight = around_one(row.seed, "weight", {row.cols}, row.dtype);
    const auto outputs = [=](const Tensor& y, const Tensor& d) {
      return outputs_with(y, of_the_weight, {{row.dtype, d.shape()}, {row.dtype, {row.cols}}});
    };
    const auto golden = golden::rms_norm_backward(x, weight, 1e-5f, dy);
    return {{dy, x},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              kernels::rms_norm_backward(operands[1], weight, 1e-5f, operands[0], out[0], out[1]);
            },
            of_the_weight ? golden.weight : golden.x,
            row.dtype,
            row.dtype == DType::fp32 ? Bound{.relative_l2 = of_the_weight ? 0x1p-21 : 0x1p-22}
                                     : after_roundings(1, row.dtype),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              Tensor memory = workspace(kernels::cuda::rms_norm_workspace(operands[0].rows(), row.cols));
              kernels::cuda::rms_norm_backward(cuda::upload(operands[1]), cuda::upload(weight), 1e-5f,
                                               cuda::upload(operands[0]), out[0], out[1], memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(false); }
};
struct RmsNormSums : RmsNormBackward {
  static RowProblem problem() { return RmsNormBackward::problem(true); }
};
H3_ROW_CLAIMS(RmsNormBackward)
H3_SUM_CLAIMS(RmsNormSums)
INSTANTIATE_TEST_SUITE_P(rows, RmsNormBackward, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(RmsNormBackward, kRows);

constexpr RowCase kSums[] = {
    {"h3_rmsnorm", 264, 5376},  {"h3_rmsnorm", 127, 516, DType::fp32},
    {"h3_rmsnorm", 128, 128},   {"h3_rmsnorm", 129, 264, DType::fp16, 11},
    {"h3_rmsnorm", 16500, 136},  // more than 128 runs
    {"h3_rmsnorm", 1, 5376},
};
INSTANTIATE_TEST_SUITE_P(rows, RmsNormSums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(RmsNormSums, kSums);

// ---- bad input

struct RmsNormBadInput : testing::TestWithParam<BadInput> {};
TEST_P(RmsNormBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"width_not_a_multiple_of_four",
     "multiple of 4",
     [](Tensor& y) {
       kernels::rms_norm(filled(DType::bf16, {2, 6}, 1), filled(DType::bf16, {6}, 1), 1e-5f, y);
     },
     DType::bf16,
     {2, 6}},
    {"weight_of_another_dtype", "rms_norm: weight is fp32, expected bf16",
     [](Tensor& y) {
       kernels::rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::fp32, {8}, 1), 1e-5f, y);
     }},
    {"weight_of_another_width", "rms_norm: weight is 4, expected 8",
     [](Tensor& y) {
       kernels::rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {4}, 1), 1e-5f, y);
     }},
    {"fp64", "rms_norm: x is fp64, expected bf16 or fp16 or fp32",
     [](Tensor& y) {
       kernels::rms_norm(filled(DType::fp64, {2, 8}, 1), filled(DType::fp64, {8}, 1), 1e-5f, y);
     }},
    {"negative_eps", "rms_norm: eps is -1",
     [](Tensor& y) {
       kernels::rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), -1, y);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, RmsNormBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
