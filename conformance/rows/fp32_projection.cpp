// RFC rows video_input_projection_fp32, audio_input_projection_fp32 and the two output heads.
#include "kernels/fp32_projection.h"

#include "conformance/rows/on_cuda.h"
#include "golden/fp32_projection.h"
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
};
INSTANTIATE_TEST_SUITE_P(rows, Fp32ProjectionBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
