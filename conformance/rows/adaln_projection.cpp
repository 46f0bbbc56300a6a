// RFC row adaln_projection_3mod, and the same projection of final_adaln_out.
#include "kernels/adaln_projection.h"

#include "conformance/rows/on_cuda.h"
#include "golden/adaln_projection.h"
#include "golden/final_adaln_out.h"
#include "kernels/final_adaln_out.h"
#include "kernels/linear.h"
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

// ---- backward

// dtemb: dz is rounded, FP32 from there. dweight: z and the result are; dbias: the result.
struct AdalnProjectionBackward : testing::TestWithParam<RowCase> {
  enum Output : std::size_t { dtemb, dweight, dbias };
  static RowProblem problem(Output which) {
    const RowCase& row = GetParam();
    const std::int64_t width = 336;
    const Tensor temb = synthetic_activation(row.seed, "temb", {row.rows, width}, DType::fp32);
    const Tensor weight = synthetic_activation(row.seed, "weight", {row.cols, width}, DType::bf16, 0.02f);
    const Tensor dtable = synthetic_activation(row.seed, "dtable", {row.rows, row.cols}, DType::bf16);
    const auto outputs = [=](const Tensor& y, const Tensor& t) {
      return outputs_with(
          y, which, {{DType::fp32, t.shape()}, {DType::bf16, weight.shape()}, {DType::bf16, {row.cols}}});
    };
    const auto by_tag = [](const Tensor& d) { return d.reshaped({3 * d.rows(), d.cols() / 3}); };
    const auto golden = golden::adaln_projection_backward(temb, weight, by_tag(dtable));
    const Tensor goldens[] = {golden.x, golden.weight, golden.bias};
    return {{dtable, temb},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[1]);
              kernels::adaln_projection_backward(operands[1], weight, by_tag(operands[0]), out[0], out[1],
                                                 out[2]);
            },
            goldens[which],
            which == dtemb ? DType::fp32 : DType::bf16,
            after_roundings(which == dweight ? 2 : 1, DType::bf16),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[1]);
              const Shape inner = operands[1].shape();
              Tensor z = cuda::allocate(DType::bf16, inner), dz = cuda::allocate(DType::bf16, inner);
              Tensor memory = workspace(kernels::cuda::linear_bias_workspace(operands[1].rows(), row.cols));
              kernels::cuda::adaln_projection_backward(cuda::upload(operands[1]), cuda::upload(weight),
                                                       cuda::upload(by_tag(operands[0])), z, dz, out[0],
                                                       out[1], out[2], memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(dtemb); }
};
struct AdalnWeightSums : AdalnProjectionBackward {
  static RowProblem problem() { return AdalnProjectionBackward::problem(dweight); }
};
struct AdalnBiasSums : AdalnProjectionBackward {
  static RowProblem problem() { return AdalnProjectionBackward::problem(dbias); }
};
H3_ROW_CLAIMS(AdalnProjectionBackward)
H3_SUM_CLAIMS(AdalnWeightSums)
H3_SUM_CLAIMS(AdalnBiasSums)

constexpr RowCase kGradients[] = {
    {"adaln_projection_3mod", 3, 18 * 64},
    {"adaln_projection_3mod", 1, 18 * 8, DType::bf16, 11},
    {"adaln_projection_3mod", 20, 18 * 8, DType::bf16, 11},  // more timesteps than a step of the chain
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnProjectionBackward, testing::ValuesIn(kGradients), row_name);
INSTANTIATE_TEST_SUITE_P(rows, AdalnWeightSums, testing::ValuesIn(kGradients), row_name);
INSTANTIATE_TEST_SUITE_P(rows, AdalnBiasSums, testing::ValuesIn(kGradients), row_name);
H3_ROWS_ON_CUDA(AdalnProjectionBackward, kGradients);
H3_SUMS_ON_CUDA(AdalnWeightSums, kGradients);
H3_SUMS_ON_CUDA(AdalnBiasSums, kGradients);

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
    {"gradient_as_the_product", "adaln_projection_backward: dtable is 2x18, expected 6x6",
     [](Tensor& y) {
       Tensor dweight(DType::bf16, {18, 8}), dbias(DType::bf16, {18});
       kernels::adaln_projection_backward(filled(DType::fp32, {2, 8}, 1), filled(DType::bf16, {18, 8}, 1),
                                          filled(DType::bf16, {2, 18}, 1), y, dweight, dbias);
     },
     DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnProjectionBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
