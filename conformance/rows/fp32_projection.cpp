// RFC rows video_input_projection_fp32, audio_input_projection_fp32 and the two output heads.
#include "kernels/fp32_projection.h"

#include "conformance/rows/on_cuda.h"
#include "golden/fp32_projection.h"
#include "kernels/linear.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct Fp32Projection : testing::TestWithParam<RowCase> {
  // One FP32 chain of K products: relative_l2 <= sqrt(K) 2^-24. cols is K; the output is the other of 5376
  // and the width of a row of latents. The heads read bf16 rows.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const bool is_head = row.dtype == DType::bf16;
    const std::int64_t outputs = is_head ? 96 : 672;
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype);
    const Tensor weight = synthetic_activation(row.seed, "weight", {outputs, row.cols}, DType::fp32, 0.05f);
    const Tensor bias = synthetic_activation(row.seed, "bias", {outputs}, DType::fp32, 0.5f);
    return {{x},
            [=](const auto& operands, Tensor& y) { kernels::fp32_projection(operands[0], weight, bias, y); },
            golden::fp32_projection(x.to(DType::fp32), weight, bias),
            DType::fp32,
            Bound{.relative_l2 = std::sqrt(double(row.cols)) * 0x1p-24},
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              kernels::cuda::fp32_projection(cuda::upload(operands[0]), cuda::upload(weight),
                                             cuda::upload(bias), y, nullptr);
            })};
  }
};

TEST_P(Fp32Projection, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(Fp32Projection, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(Fp32Projection, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(Fp32Projection, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(Fp32Projection, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(Fp32Projection, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"video_input_projection_fp32", 264, 96, DType::fp32},
    {"audio_input_projection_fp32", 74, 32, DType::fp32},
    {"video_output_projection_fp32", 71, 5376, DType::bf16},
    {"video_input_projection_fp32", 5, 7, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, Fp32Projection, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(Fp32Projection, kRows);

// ---- backward: runs of 128 products, of N for dx, of S for dweight, then their sums; dbias adds trees of
// eight rows, 16 of them to a run, then the runs

struct Fp32ProjectionBackward : testing::TestWithParam<RowCase> {
  enum Output : std::size_t { dx, dweight, dbias };
  static RowProblem problem(Output which) {
    const RowCase& row = GetParam();
    const std::int64_t outputs = row.dtype == DType::bf16 ? 96 : 672;
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype);
    const Tensor weight = synthetic_activation(row.seed, "weight", {outputs, row.cols}, DType::fp32, 0.05f);
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, outputs}, DType::fp32);
    const auto golden = golden::fp32_projection_backward(x.to(DType::fp32), weight, dy);
    const Tensor goldens[] = {golden.x, golden.weight, golden.bias};
    const auto steps_of = [](std::int64_t terms, std::int64_t run) {
      return double(std::min(terms, run) + terms / 128);
    };
    const double steps[] = {steps_of(outputs, 128), steps_of(row.rows, 128), steps_of(row.rows, 3 + 16)};
    return {{dy, x},
            [=](const auto& operands, Tensor& y) {
              if (which == dx) kernels::fp32_input_gradient(operands[0], weight, y);
              if (which == dweight) kernels::fp32_weight_gradient(operands[0], operands[1], y);
              if (which == dbias) kernels::fp32_bias_gradient(operands[0], y);
            },
            goldens[which],
            DType::fp32,
            Bound{.relative_l2 = std::sqrt(steps[which]) * 0x1p-24},
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              const Tensor d = cuda::upload(operands[0]);
              Tensor memory = workspace(kernels::cuda::linear_bias_workspace(d.rows(), d.cols()));
              if (which == dx) kernels::cuda::fp32_input_gradient(d, cuda::upload(weight), y, nullptr);
              if (which == dweight)
                kernels::cuda::fp32_weight_gradient(d, cuda::upload(operands[1]), y, nullptr);
              if (which == dbias) kernels::cuda::fp32_bias_gradient(d, y, memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(dx); }
};
struct Fp32WeightSums : Fp32ProjectionBackward {
  static RowProblem problem() { return Fp32ProjectionBackward::problem(dweight); }
};
struct Fp32BiasSums : Fp32ProjectionBackward {
  static RowProblem problem() { return Fp32ProjectionBackward::problem(dbias); }
};
H3_ROW_CLAIMS(Fp32ProjectionBackward)
H3_SUM_CLAIMS(Fp32WeightSums)
H3_SUM_CLAIMS(Fp32BiasSums)
INSTANTIATE_TEST_SUITE_P(rows, Fp32ProjectionBackward, testing::ValuesIn(kRows), row_name);
INSTANTIATE_TEST_SUITE_P(rows, Fp32WeightSums, testing::ValuesIn(kRows), row_name);
INSTANTIATE_TEST_SUITE_P(rows, Fp32BiasSums, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(Fp32ProjectionBackward, kRows);
H3_SUMS_ON_CUDA(Fp32WeightSums, kRows);
H3_SUMS_ON_CUDA(Fp32BiasSums, kRows);

// ---- bad input

struct Fp32ProjectionBadInput : testing::TestWithParam<BadInput> {};
TEST_P(Fp32ProjectionBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"weights_cast_to_bf16", "fp32_projection: weight is bf16, expected fp32",
     [](Tensor& y) {
       kernels::fp32_projection(filled(DType::fp32, {2, 4}, 1), filled(DType::bf16, {8, 4}, 1),
                                filled(DType::fp32, {8}, 1), y);
     },
     DType::fp32},
    {"bias_of_another_width", "fp32_projection: bias is 4, expected 8",
     [](Tensor& y) {
       kernels::fp32_projection(filled(DType::fp32, {2, 4}, 1), filled(DType::fp32, {8, 4}, 1),
                                filled(DType::fp32, {4}, 1), y);
     },
     DType::fp32},
    {"gradient_in_bf16", "fp32_weight_gradient: dy is bf16, expected fp32",
     [](Tensor& y) {
       kernels::fp32_weight_gradient(filled(DType::bf16, {2, 8}, 1), filled(DType::fp32, {2, 4}, 1), y);
     },
     DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, Fp32ProjectionBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
