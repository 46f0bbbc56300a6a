// The tables of RFC row h3_mm_rope_3axis_partial.
#include "kernels/rotary_tables.h"

#include "conformance/rows/on_cuda.h"
#include "golden/rotary_tables.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct RotaryTables : testing::TestWithParam<RowCase> {
  // The FP32 angle is part of the definition; cosf and sinf err by at most two units in the last place. cols
  // is 6f.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const bool is_cosine = std::string(row.row) == "rotary_cos";
    const Tensor positions = synthetic_activation(row.seed, "positions", {row.rows, 3}, DType::fp64, 3000);
    const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies(row.cols / 6));
    return {{positions},
            [is_cosine](const auto& operands, Tensor& y) {
              Tensor other(DType::fp32, y.shape());
              kernels::rotary_tables(operands[0], 10000, is_cosine ? y : other, is_cosine ? other : y);
            },
            is_cosine ? tables.cos : tables.sin,
            DType::fp32,
            Bound{.max_abs = 0x1p-23},
            H3_ON_CUDA([is_cosine](const auto& operands, Tensor& y) {
              Tensor other = cuda::allocate(DType::fp32, y.shape());
              kernels::cuda::rotary_tables(operands[0], 10000, is_cosine ? y : other, is_cosine ? other : y,
                                           nullptr);
            })};
  }
};

TEST_P(RotaryTables, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(RotaryTables, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(RotaryTables, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(RotaryTables, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(RotaryTables, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(RotaryTables, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"rotary_cos", 264, 96, DType::fp32},
    {"rotary_sin", 264, 96, DType::fp32},
    {"rotary_cos", 71, 12, DType::fp32, 11},
    {"rotary_sin", 71, 12, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, RotaryTables, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(RotaryTables, kRows);

// ---- bad input

struct RotaryTablesBadInput : testing::TestWithParam<BadInput> {};
TEST_P(RotaryTablesBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"positions_in_fp32",
     "rotary_tables: positions is fp32, expected fp64",
     [](Tensor& y) {
       Tensor sin(DType::fp32, {2, 6});
       kernels::rotary_tables(filled(DType::fp32, {2, 3}, 1), 10000, y, sin);
     },
     DType::fp32,
     {2, 6}},
    {"two_axes",
     "rotary_tables: positions is 2x2, expected 2x3",
     [](Tensor& y) {
       Tensor sin(DType::fp32, {2, 6});
       kernels::rotary_tables(filled(DType::fp64, {2, 2}, 1), 10000, y, sin);
     },
     DType::fp32,
     {2, 6}},
    {"an_infinite_position",
     "positions[1][2] is inf",
     [](Tensor& y) {
       Tensor sin(DType::fp32, {2, 6});
       kernels::rotary_tables(listed(DType::fp64, {2, 3}, {0, 1, 2, 3, 4, INFINITY}), 10000, y, sin);
     },
     DType::fp32,
     {2, 6}},
};
INSTANTIATE_TEST_SUITE_P(rows, RotaryTablesBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
