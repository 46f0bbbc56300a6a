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

// ---- backward

// Roundings on the way to each: of dx and dweight 1 + scale, dn and the result; of dshift the result; of
// dscale the norm, the product and the result.
struct ModulatedRmsNormBackward : testing::TestWithParam<RowCase> {
  enum Output : std::size_t { dx, dweight, dshift, dscale };
  static RowProblem problem(Output which) {
    const RowCase& row = GetParam();
    constexpr std::int64_t kTableRows = 9;
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype, 1, true);
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, row.cols}, row.dtype);
    const Tensor weight = around_one(row.seed, "weight", {row.cols}, row.dtype);
    const Tensor table = synthetic_activation(row.seed, "table", {kTableRows, 6 * row.cols}, row.dtype, 0.5f);
    const Tensor index = uneven_index(row.rows, kTableRows);
    const auto outputs = [=](const Tensor& y, const Tensor& d) {
      const Shape part = {kTableRows, row.cols};
      return outputs_with(
          y, which, {{row.dtype, d.shape()}, {row.dtype, {row.cols}}, {row.dtype, part}, {row.dtype, part}});
    };
    const auto golden =
        golden::modulated_rms_norm_backward(x, weight, 1e-5f, {table.to(DType::fp32), 4}, index, dy);
    const Tensor goldens[] = {golden.x, golden.weight, golden.shift, golden.scale};
    return {{dy, x, index},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              kernels::modulated_rms_norm_backward(operands[1], weight, 1e-5f, {table, 4}, operands[2],
                                                   operands[0], out[0], out[1], {out[2]}, {out[3]});
            },
            goldens[which],
            row.dtype,
            row.dtype == DType::fp32 ? Bound{.relative_l2 = 0x1p-21}
            : which == dx            ? after_roundings(3, row.dtype)
                                     : at_most_roundings(which == dshift ? 1 : 3, row.dtype),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              const cuda::RowIndex rows(operands[2], kTableRows);
              Tensor memory = workspace(kernels::cuda::modulated_rms_norm_workspace(rows, row.cols));
              kernels::cuda::modulated_rms_norm_backward(
                  cuda::upload(operands[1]), cuda::upload(weight), 1e-5f, {cuda::upload(table), 4}, rows,
                  cuda::upload(operands[0]), out[0], out[1], {out[2]}, {out[3]}, memory, nullptr);
            })};
  }
  static RowProblem problem() { return problem(dx); }
};
struct ModulatedWeightSums : ModulatedRmsNormBackward {
  static RowProblem problem() { return ModulatedRmsNormBackward::problem(dweight); }
};
struct ModulatedShiftSums : ModulatedRmsNormBackward {
  static RowProblem problem() { return ModulatedRmsNormBackward::problem(dshift); }
};
struct ModulatedScaleSums : ModulatedRmsNormBackward {
  static RowProblem problem() { return ModulatedRmsNormBackward::problem(dscale); }
};
H3_ROW_CLAIMS(ModulatedRmsNormBackward)
H3_SUM_CLAIMS(ModulatedWeightSums)
H3_SUM_CLAIMS(ModulatedShiftSums)
H3_SUM_CLAIMS(ModulatedScaleSums)

constexpr RowCase kGradients[] = {
    {"h3_rmsnorm_modulated", 264, 5376},
    {"h3_rmsnorm_modulated", 71, 5376, DType::fp16},
    {"h3_rmsnorm_modulated", 71, 5376, DType::fp32},
    {"h3_rmsnorm_modulated", 9, 24, DType::bf16, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, ModulatedRmsNormBackward, testing::ValuesIn(kGradients), row_name);
H3_ROWS_ON_CUDA(ModulatedRmsNormBackward, kGradients);

constexpr RowCase kSums[] = {
    {"h3_rmsnorm_modulated", 264, 5376},
    {"h3_rmsnorm_modulated", 1, 264},
    {"h3_rmsnorm_modulated", 137, 516, DType::fp32, 11},
    {"h3_rmsnorm_modulated", 18000, 136, DType::bf16, 11},  // more than 128 runs of one table row
};
INSTANTIATE_TEST_SUITE_P(rows, ModulatedWeightSums, testing::ValuesIn(kSums), row_name);
INSTANTIATE_TEST_SUITE_P(rows, ModulatedShiftSums, testing::ValuesIn(kSums), row_name);
INSTANTIATE_TEST_SUITE_P(rows, ModulatedScaleSums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(ModulatedWeightSums, kSums);
H3_SUMS_ON_CUDA(ModulatedShiftSums, kSums);
H3_SUMS_ON_CUDA(ModulatedScaleSums, kSums);

// Parts of the table that the norm does not read keep their bytes.
struct ModulationGradientParts : testing::TestWithParam<std::int64_t> {
};  // the shift's, of four; the scale's follows

TEST_P(ModulationGradientParts, are_written_and_no_others) {
  const Tensor x = filled(DType::bf16, {2, 8}, 1), table = filled(DType::bf16, {3, 32}, 0);
  const std::int64_t shift = GetParam(), scale = GetParam() + 1;
  Tensor dtable = filled(DType::bf16, {3, 32}, 7), dx(DType::bf16, {2, 8}), dweight(DType::bf16, {8});
  kernels::modulated_rms_norm_backward(x, filled(DType::bf16, {8}, 1), 0, {table, scale},
                                       listed_index({2, 2}), filled(DType::bf16, {2, 8}, 3), dx, dweight,
                                       {dtable, shift}, {dtable, scale});
  for (std::int64_t i = 0; i < dtable.elements(); ++i) {
    const std::int64_t part = i % 32 / 8;
    EXPECT_EQ(dtable.at(i), part == shift || part == scale ? (i / 32 == 2 ? 6 : 0) : 7) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(rows, ModulationGradientParts, testing::Values(0, 1, 2),
                         [](const auto& info) { return "part_" + std::to_string(info.param); });

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
    {"gradient_of_a_longer_table", "modulated_rms_norm_backward: dscale has 4 table rows, expected 3",
     [](Tensor& y) {
       const Tensor x = filled(DType::bf16, {2, 8}, 1);
       Tensor dweight(DType::bf16, {8});
       kernels::modulated_rms_norm_backward(
           x, filled(DType::bf16, {8}, 1), 1e-5f, {filled(DType::bf16, {3, 8}, 0)}, listed_index({0, 2}), x,
           y, dweight, {filled(DType::bf16, {3, 8}, 0)}, {filled(DType::bf16, {4, 8}, 0)});
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, ModulatedRmsNormBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
