// RFC row timestep_mlp_fp32.
#include "kernels/timestep_mlp.h"

#include "conformance/rows/on_cuda.h"
#include "golden/timestep_mlp.h"
#include "kernels/linear.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct TimestepMlp : testing::TestWithParam<RowCase> {
  // The longest path of a product through the sum is 16 FMAs in a tile, K/256 tiles and 16 partials, each
  // step rounding to FP32: relative_l2 <= sqrt(steps) 2^-24 for the wider linear. The RFC asks for 1e-4. cols
  // is the hidden width.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const std::int64_t features = row.cols < 256 ? 8 : 256, outputs = row.cols / 2;
    const Tensor e = synthetic_activation(row.seed, "e", {row.rows, features}, DType::fp32, 0.7f);
    const Tensor w1 = synthetic_activation(row.seed, "w1", {row.cols, features}, DType::fp32, 0.1f);
    const Tensor w2 = synthetic_activation(row.seed, "w2", {outputs, row.cols}, DType::fp32, 0.02f);
    const Tensor b1 = synthetic_activation(row.seed, "b1", {row.cols}, DType::fp32, 0.5f);
    const Tensor b2 = synthetic_activation(row.seed, "b2", {outputs}, DType::fp32, 0.5f);
    return {{e},
            [=](const auto& operands, Tensor& y) { kernels::timestep_mlp(operands[0], w1, b1, w2, b2, y); },
            golden::timestep_mlp(e, w1, b1, w2, b2),
            DType::fp32,
            Bound{.relative_l2 = std::sqrt(32 + double(row.cols) / 256) * 0x1p-24},
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              Tensor inner = cuda::allocate(DType::fp32, {operands[0].shape()[0], b1.elements()});
              kernels::cuda::timestep_mlp(cuda::upload(operands[0]), cuda::upload(w1), cuda::upload(b1),
                                          cuda::upload(w2), cuda::upload(b2), inner, y, nullptr);
            })};
  }
};

TEST_P(TimestepMlp, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(TimestepMlp, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(TimestepMlp, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(TimestepMlp, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(TimestepMlp, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(TimestepMlp, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"timestep_mlp_fp32", 3, 5376, DType::fp32},
    {"timestep_mlp_fp32", 1, 5376, DType::fp32, 11},
    {"timestep_mlp_fp32", 40, 24, DType::fp32, 11},  // depths that fill neither a tile nor the 16 partials
};
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlp, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(TimestepMlp, kRows);

// ---- backward

// The paths of a product: U rows into a gradient of the second linear; the outputs (half the hidden width),
// the derivative and U rows into one of the first.
struct TimestepMlpSums : testing::TestWithParam<RowCase> {
  enum Output : std::size_t { dw1, db1, dw2, db2 };
  static RowProblem problem(Output which) {
    const RowCase& row = GetParam();
    const std::int64_t features = row.cols < 256 ? 8 : 256, outputs = row.cols / 2;
    const Tensor e = synthetic_activation(row.seed, "e", {row.rows, features}, DType::fp32, 0.7f);
    const Tensor w1 = synthetic_activation(row.seed, "w1", {row.cols, features}, DType::fp32, 0.1f);
    const Tensor w2 = synthetic_activation(row.seed, "w2", {outputs, row.cols}, DType::fp32, 0.02f);
    const Tensor b1 = synthetic_activation(row.seed, "b1", {row.cols}, DType::fp32, 0.5f);
    const Tensor dtemb = synthetic_activation(row.seed, "dtemb", {row.rows, outputs}, DType::fp32);
    const auto golden = golden::timestep_mlp_backward(e, w1, b1, w2, dtemb);
    const Tensor goldens[] = {golden.weight_1, golden.bias_1, golden.weight_2, golden.bias_2};
    const double inner = double(outputs) + 32 + double(features);
    const double steps[] = {inner + double(row.rows), inner + double(row.rows), double(row.rows) + 32,
                            double(row.rows)};
    const auto gradients = [=](const Tensor& y) {
      return outputs_with(y, which,
                          {{DType::fp32, w1.shape()},
                           {DType::fp32, {row.cols}},
                           {DType::fp32, w2.shape()},
                           {DType::fp32, {outputs}}});
    };
    return {{dtemb, e},
            [=](const auto& operands, Tensor& y) {
              auto out = gradients(y);
              kernels::timestep_mlp_backward(operands[1], w1, b1, w2, operands[0], out[0], out[1], out[2],
                                             out[3]);
            },
            goldens[which],
            DType::fp32,
            Bound{.relative_l2 = std::sqrt(steps[which]) * 0x1p-24},
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = gradients(y);
              const Shape inside = {operands[0].rows(), row.cols};
              Tensor h = cuda::allocate(DType::fp32, inside), s = cuda::allocate(DType::fp32, inside),
                     ds = cuda::allocate(DType::fp32, inside);
              Tensor memory = workspace(kernels::cuda::linear_bias_workspace(operands[0].rows(), row.cols));
              kernels::cuda::timestep_mlp_backward(
                  cuda::upload(operands[1]), cuda::upload(w1), cuda::upload(b1), cuda::upload(w2),
                  cuda::upload(operands[0]), h, s, ds, out[0], out[1], out[2], out[3], memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(dw1); }
};
struct TimestepMlpBias1Sums : TimestepMlpSums {
  static RowProblem problem() { return TimestepMlpSums::problem(db1); }
};
struct TimestepMlpWeight2Sums : TimestepMlpSums {
  static RowProblem problem() { return TimestepMlpSums::problem(dw2); }
};
struct TimestepMlpBias2Sums : TimestepMlpSums {
  static RowProblem problem() { return TimestepMlpSums::problem(db2); }
};
H3_SUM_CLAIMS(TimestepMlpSums)
H3_SUM_CLAIMS(TimestepMlpBias1Sums)
H3_SUM_CLAIMS(TimestepMlpWeight2Sums)
H3_SUM_CLAIMS(TimestepMlpBias2Sums)

constexpr RowCase kSums[] = {
    {"timestep_mlp_fp32", 3, 672, DType::fp32},
    {"timestep_mlp_fp32", 1, 672, DType::fp32, 11},
    {"timestep_mlp_fp32", 40, 24, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlpSums, testing::ValuesIn(kSums), row_name);
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlpBias1Sums, testing::ValuesIn(kSums), row_name);
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlpWeight2Sums, testing::ValuesIn(kSums), row_name);
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlpBias2Sums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(TimestepMlpSums, kSums);
H3_SUMS_ON_CUDA(TimestepMlpBias1Sums, kSums);
H3_SUMS_ON_CUDA(TimestepMlpWeight2Sums, kSums);
H3_SUMS_ON_CUDA(TimestepMlpBias2Sums, kSums);

// ---- bad input

struct TimestepMlpBadInput : testing::TestWithParam<BadInput> {};
TEST_P(TimestepMlpBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"bf16_features", "timestep_mlp: e is bf16, expected fp32",
     [](Tensor& y) {
       const Tensor w = filled(DType::fp32, {8, 8}, 1), b = filled(DType::fp32, {8}, 1);
       kernels::timestep_mlp(filled(DType::bf16, {2, 8}, 1), w, b, w, b, y);
     },
     DType::fp32},
    {"bf16_weights", "timestep_mlp: w2 is bf16, expected fp32",
     [](Tensor& y) {
       const Tensor w = filled(DType::fp32, {8, 8}, 1), b = filled(DType::fp32, {8}, 1);
       kernels::timestep_mlp(filled(DType::fp32, {2, 8}, 1), w, b, w.to(DType::bf16), b, y);
     },
     DType::fp32},
    {"layers_that_do_not_meet", "timestep_mlp: w2 is 8x8, expected 8x16",
     [](Tensor& y) {
       const Tensor w = filled(DType::fp32, {8, 8}, 1), b = filled(DType::fp32, {8}, 1);
       kernels::timestep_mlp(filled(DType::fp32, {2, 8}, 1), filled(DType::fp32, {16, 8}, 1),
                             filled(DType::fp32, {16}, 1), w, b, y);
     },
     DType::fp32},
    {"gradient_of_another_width", "timestep_mlp_backward: dtemb is 2x4, expected 2x8",
     [](Tensor& y) {
       const Tensor w = filled(DType::fp32, {8, 8}, 1), b = filled(DType::fp32, {8}, 1);
       Tensor dw(DType::fp32, {8, 8}), db(DType::fp32, {8}), other(DType::fp32, {8, 8});
       kernels::timestep_mlp_backward(y, w, b, w, filled(DType::fp32, {2, 4}, 1), dw, db, other, db);
     },
     DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, TimestepMlpBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
