// RFC row adaln_projection_3mod, and the same projection of final_adaln_out.
#include "kernels/adaln_projection.h"

#include "conformance/rows/on_cuda.h"
#include "golden/adaln_projection.h"
#include "golden/final_adaln_out.h"
#include "kernels/final_adaln_out.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct AdalnProjection : testing::TestWithParam<RowCase> {
  // z and the result are rounded; the FP32 sum in between is far below. A row here is a timestep: all its
  // outputs. cols is their number.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const bool is_output_norm = std::string(row.row) == "final_adaln_table";
    const std::int64_t width = 2688;
    const Tensor temb = synthetic_activation(row.seed, "temb", {row.rows, width}, DType::fp32);
    const Tensor weight = synthetic_activation(row.seed, "weight", {row.cols, width}, DType::bf16, 0.02f);
    const Tensor bias = synthetic_activation(row.seed, "bias", {row.cols}, DType::bf16);
    const Bound bound = after_roundings(2, DType::bf16);
    if (is_output_norm)
      return {
          {temb},
          [=](const auto& operands, Tensor& y) { kernels::final_adaln_table(operands[0], weight, bias, y); },
          golden::final_adaln_table(temb, weight, bias),
          DType::bf16,
          bound,
          H3_ON_CUDA([=](const auto& operands, Tensor& y) {
            Tensor z = cuda::allocate(DType::bf16, operands[0].shape());
            kernels::cuda::final_adaln_table(cuda::upload(operands[0]), cuda::upload(weight),
                                             cuda::upload(bias), z, y, nullptr);
          })};
    return {{temb},
            [=](const auto& operands, Tensor& y) {
              Tensor table = y.reshaped({3 * y.rows(), y.cols() / 3});
              kernels::adaln_projection(operands[0], weight, bias, table);
            },
            golden::adaln_projection(temb, weight, bias).reshaped({row.rows, row.cols}),
            DType::bf16,
            bound,
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              Tensor table = y.reshaped({3 * y.rows(), y.cols() / 3});
              Tensor z = cuda::allocate(DType::bf16, operands[0].shape());
              kernels::cuda::adaln_projection(cuda::upload(operands[0]), cuda::upload(weight),
                                              cuda::upload(bias), z, table, nullptr);
            })};
  }
};

TEST_P(AdalnProjection, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(AdalnProjection, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(AdalnProjection, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(AdalnProjection, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(AdalnProjection, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(AdalnProjection, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"adaln_projection_3mod", 3, 18 * 64},
    {"adaln_projection_3mod", 1, 18 * 16, DType::bf16, 11},
    {"adaln_projection_3mod", 17, 18 * 16, DType::bf16, 11},
    {"final_adaln_table", 3, 2 * 64},
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnProjection, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(AdalnProjection, kRows);

// ---- bad input

struct AdalnProjectionBadInput : testing::TestWithParam<BadInput> {};
TEST_P(AdalnProjectionBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"temb_in_bf16", "adaln_projection: temb is bf16, expected fp32",
     [](Tensor& y) {
       kernels::adaln_projection(filled(DType::bf16, {2, 16}, 1), filled(DType::bf16, {18, 16}, 1),
                                 filled(DType::bf16, {18}, 1), y);
     }},
    {"weight_of_another_width", "adaln_projection: weight is 18x8, expected 18x16",
     [](Tensor& y) {
       kernels::adaln_projection(filled(DType::fp32, {2, 16}, 1), filled(DType::bf16, {18, 8}, 1),
                                 filled(DType::bf16, {18}, 1), y);
     }},
    {"table_with_the_tag_inside",
     "adaln_projection: table is 2x18, expected 6x6",
     [](Tensor& y) {
       kernels::adaln_projection(filled(DType::fp32, {2, 16}, 1), filled(DType::bf16, {18, 16}, 1),
                                 filled(DType::bf16, {18}, 1), y);
     },
     DType::bf16,
     {2, 18}},
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnProjectionBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
