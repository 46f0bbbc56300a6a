// RFC row h3_rmsnorm with modulation (nodes norm1, norm2), and final_adaln_out given its table.
#include "conformance/rows/on_cuda.h"
#include "golden/final_adaln_out.h"
#include "golden/rms_norm.h"
#include "kernels/final_adaln_out.h"
#include "kernels/rms_norm.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct ModulatedRmsNorm : testing::TestWithParam<RowCase> {
  // Four roundings: norm, 1 + scale, product, sum.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const bool is_output_norm = std::string(row.row) == "final_adaln_out";
    const std::int64_t table_rows = is_output_norm ? 3 : 9, parts = is_output_norm ? 2 : 6;
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype, 1, true);
    const Tensor weight = around_one(row.seed, "weight", {row.cols}, row.dtype);
    const Tensor table =
        synthetic_activation(row.seed, "table", {table_rows, parts * row.cols}, row.dtype, 0.5f);
    const Tensor index = index_operand(row.seed, row.rows, table_rows), wide = table.to(DType::fp32);
    const Bound bound = after_roundings(4, row.dtype);
    if (is_output_norm)
      return {{x, index},
              [=](const auto& operands, Tensor& y) {
                kernels::final_adaln_out(operands[0], weight, kEps, table, operands[1], y);
              },
              golden::final_adaln_out(x, weight, kEps, wide, index),
              row.dtype,
              bound,
              H3_ON_CUDA([=](const auto& operands, Tensor& y) {
                kernels::cuda::final_adaln_out(cuda::upload(operands[0]), cuda::upload(weight), kEps,
                                               cuda::upload(table), {operands[1], table_rows}, y, nullptr);
              })};
    return {{x, index},
            [=](const auto& operands, Tensor& y) {
              kernels::modulated_rms_norm(operands[0], weight, kEps,
                                          {table, std::int64_t(Modulation::shift_mlp)},
                                          {table, std::int64_t(Modulation::scale_mlp)}, operands[1], y);
            },
            golden::modulated_rms_norm(x, weight, kEps, {wide, 3}, {wide, 4}, index),
            row.dtype,
            row.dtype == DType::fp32 ? Bound{.relative_l2 = 0x1p-22} : bound,
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              const Tensor strict = cuda::upload(table);
              kernels::cuda::modulated_rms_norm(cuda::upload(operands[0]), cuda::upload(weight), kEps,
                                                {strict, std::int64_t(Modulation::shift_mlp)},
                                                {strict, std::int64_t(Modulation::scale_mlp)},
                                                {operands[1], table_rows}, y, nullptr);
            })};
  }
  static constexpr float kEps = 1e-5f;
};

TEST_P(ModulatedRmsNorm, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(ModulatedRmsNorm, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(ModulatedRmsNorm, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(ModulatedRmsNorm, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(ModulatedRmsNorm, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(ModulatedRmsNorm, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_rmsnorm_modulated", 264, 5376},
    {"h3_rmsnorm_modulated", 71, 5376, DType::fp16},
    {"h3_rmsnorm_modulated", 71, 5376, DType::fp32},
    {"h3_rmsnorm_modulated", 9, 24, DType::bf16, 11},
    {"final_adaln_out", 264, 5376},
    {"final_adaln_out", 10, 24, DType::bf16, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, ModulatedRmsNorm, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(ModulatedRmsNorm, kRows);

// ---- rounding points, one element at a time

struct ModulationRow {
  const char* name;
  double scale, shift;
  double y;  // for a norm of exactly 1
};
void PrintTo(const ModulationRow& row, std::ostream* out) { *out << row.name; }

struct Modulation : testing::TestWithParam<ModulationRow> {};

TEST_P(Modulation, rounds_where_the_provider_rounds) {
  const ModulationRow& row = GetParam();
  const Tensor ones = filled(DType::bf16, {1, 8}, 1);
  Tensor y(DType::bf16, {1, 8});
  kernels::modulated_rms_norm(ones, filled(DType::bf16, {8}, 1), 0, {filled(DType::bf16, {1, 8}, row.shift)},
                              {filled(DType::bf16, {1, 8}, row.scale)}, filled(DType::i64, {1}, 0), y);
  EXPECT_TRUE(bitwise_equal(filled(DType::bf16, {1, 8}, row.y), y));
}

const ModulationRow kModulations[] = {
    {"neutral", 0, 0, 1},
    {"small_scale_vanishes", 0x1p-8, 0, 1},            // 1 + 2^-8 is a tie and goes to the even 1
    {"negative_small_scale_vanishes", -0x1p-9, 0, 1},  // so is 1 - 2^-9
    {"smallest_scale_that_shows", 0x1.02p-8, 0, 1 + 0x1p-7},
    {"shift_after_product", 1, 0x1p-7, 2},  // 2 + 2^-7 is a tie, too
    {"cancels", 1, -2, 0},
};
INSTANTIATE_TEST_SUITE_P(rows, Modulation, testing::ValuesIn(kModulations),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct ModulatedRmsNormBadInput : testing::TestWithParam<BadInput> {};
TEST_P(ModulatedRmsNormBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"index_past_the_table", "index[1] is 9, expected 0..8",
     [](Tensor& y) {
       const Tensor table = filled(DType::bf16, {9, 48}, 0);
       kernels::modulated_rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), 1e-5f,
                                   {table, 0}, {table, 1}, listed_index({0, 9}), y);
     }},
    {"negative_index", "index[0] is -1, expected 0..8",
     [](Tensor& y) {
       const Tensor table = filled(DType::bf16, {9, 48}, 0);
       kernels::modulated_rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), 1e-5f,
                                   {table, 0}, {table, 1}, listed_index({-1, 0}), y);
     }},
    {"part_past_the_table", "scale is part 6 of a table 9x48, expected a part of 8 columns",
     [](Tensor& y) {
       const Tensor table = filled(DType::bf16, {9, 48}, 0);
       kernels::modulated_rms_norm(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), 1e-5f,
                                   {table, 0}, {table, 6}, listed_index({0, 0}), y);
     }},
    {"output_norm_with_a_block_table",
     "final_adaln_out: table is 9x48, expected 16 columns: shift, then scale",
     [](Tensor& y) {
       kernels::final_adaln_out(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8}, 1), 1e-5f,
                                filled(DType::bf16, {9, 48}, 0), listed_index({0, 0}), y);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, ModulatedRmsNormBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
