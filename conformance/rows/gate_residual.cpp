// RFC row adaln_gate_residual (nodes residual_attn, residual_mlp), and the refiner's residual without a gate.
#include "kernels/gate_residual.h"

#include "conformance/rows/on_cuda.h"
#include "golden/gate_residual.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct GateResidual : testing::TestWithParam<RowCase> {
  // Product and sum are rounded; without a gate only the sum.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, DType::bf16, 1, true);
    const Tensor branch = synthetic_activation(row.seed, "branch", {row.rows, row.cols}, DType::bf16);
    if (std::string(row.row) == "refiner_residual")
      return {{x, branch},
              [](const auto& operands, Tensor& y) { kernels::residual(operands[0], operands[1], y); },
              golden::residual(x, branch),
              DType::bf16,
              after_roundings(1, DType::bf16),
              H3_ON_CUDA([](const auto& operands, Tensor& y) {
                kernels::cuda::residual(cuda::upload(operands[0]), cuda::upload(operands[1]), y, nullptr);
              })};
    const Tensor table = synthetic_activation(row.seed, "table", {9, 6 * row.cols}, DType::bf16);
    const Tensor index = index_operand(row.seed, row.rows, 9);
    return {{x, branch, index},
            [table](const auto& operands, Tensor& y) {
              kernels::gate_residual(operands[0], operands[1], {table, std::int64_t(Modulation::gate_mlp)},
                                     operands[2], y);
            },
            golden::gate_residual(x, branch, {table.to(DType::fp32), 5}, index),
            DType::bf16,
            after_roundings(2, DType::bf16),
            H3_ON_CUDA([table](const auto& operands, Tensor& y) {
              kernels::cuda::gate_residual(cuda::upload(operands[0]), cuda::upload(operands[1]),
                                           {cuda::upload(table), std::int64_t(Modulation::gate_mlp)},
                                           {operands[2], 9}, y, nullptr);
            })};
  }
};

TEST_P(GateResidual, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(GateResidual, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(GateResidual, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(GateResidual, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(GateResidual, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(GateResidual, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"adaln_gate_residual", 264, 5376},
    {"adaln_gate_residual", 71, 24, DType::bf16, 11},
    {"refiner_residual", 71, 5376},
};
INSTANTIATE_TEST_SUITE_P(rows, GateResidual, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(GateResidual, kRows);

// ---- backward

// Of the branch one rounding; of the gate the products' and the sum's.
struct GateResidualBackward : testing::TestWithParam<RowCase> {
  static RowProblem problem(bool of_the_gate) {
    const RowCase& row = GetParam();
    constexpr std::int64_t kTableRows = 9;
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, row.cols}, DType::bf16);
    const Tensor branch = synthetic_activation(row.seed, "branch", {row.rows, row.cols}, DType::bf16);
    const Tensor table = synthetic_activation(row.seed, "table", {kTableRows, 6 * row.cols}, DType::bf16);
    const Tensor index = uneven_index(row.rows, kTableRows);
    const auto outputs = [=](const Tensor& y, const Tensor& d) {
      return outputs_with(y, of_the_gate, {{DType::bf16, d.shape()}, {DType::bf16, {kTableRows, row.cols}}});
    };
    const auto golden = golden::gate_residual_backward(branch, {table.to(DType::fp32), 5}, index, dy);
    return {{dy, branch, index},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              kernels::gate_residual_backward(operands[1], {table, 5}, operands[2], operands[0], out[0],
                                              {out[1]});
            },
            of_the_gate ? golden.gate : golden.branch,
            DType::bf16,
            after_roundings(of_the_gate ? 2 : 1, DType::bf16),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[0]);
              const cuda::RowIndex rows(operands[2], kTableRows);
              Tensor memory = workspace(kernels::cuda::gate_residual_workspace(rows, row.cols));
              kernels::cuda::gate_residual_backward(cuda::upload(operands[1]), {cuda::upload(table), 5}, rows,
                                                    cuda::upload(operands[0]), out[0], {out[1]}, memory,
                                                    nullptr);
            })};
  }
  static RowProblem problem() { return problem(false); }
};
struct GateResidualSums : GateResidualBackward {
  static RowProblem problem() { return GateResidualBackward::problem(true); }
};
H3_ROW_CLAIMS(GateResidualBackward)
H3_SUM_CLAIMS(GateResidualSums)

constexpr RowCase kGradients[] = {
    {"adaln_gate_residual", 264, 5376},
    {"adaln_gate_residual", 71, 20, DType::bf16, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, GateResidualBackward, testing::ValuesIn(kGradients), row_name);
H3_ROWS_ON_CUDA(GateResidualBackward, kGradients);

constexpr RowCase kSums[] = {
    {"adaln_gate_residual", 264, 5376},
    {"adaln_gate_residual", 1, 264},
    {"adaln_gate_residual", 135, 264},                     // 127, 128 and 129 rows of one table row
    {"adaln_gate_residual", 136, 260, DType::bf16, 11},    //
    {"adaln_gate_residual", 137, 264},                     //
    {"adaln_gate_residual", 18000, 136, DType::bf16, 11},  // more than 128 runs
};
INSTANTIATE_TEST_SUITE_P(rows, GateResidualSums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(GateResidualSums, kSums);

struct GateGradientPart : testing::TestWithParam<std::int64_t> {};  // of a table of three

TEST_P(GateGradientPart, is_written_and_no_other) {
  const Tensor dy = filled(DType::bf16, {2, 8}, 1), branch = filled(DType::bf16, {2, 8}, 3);
  Tensor dtable = filled(DType::bf16, {3, 24}, 7), dbranch(DType::bf16, {2, 8});
  kernels::gate_residual_backward(branch, {filled(DType::bf16, {3, 24}, 2), 1}, listed_index({2, 2}), dy,
                                  dbranch, {dtable, GetParam()});
  for (std::int64_t i = 0; i < dtable.elements(); ++i) {
    const bool own = i % 24 / 8 == GetParam();
    EXPECT_EQ(dtable.at(i), own ? (i / 24 == 2 ? 6 : 0) : 7) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(rows, GateGradientPart, testing::Values(0, 1, 2),
                         [](const auto& info) { return "part_" + std::to_string(info.param); });

// ---- bad input

struct GateResidualBadInput : testing::TestWithParam<BadInput> {};
TEST_P(GateResidualBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"index_past_the_table", "gate_residual: index[0] is 3, expected 0..2",
     [](Tensor& y) {
       const Tensor x = filled(DType::bf16, {2, 8}, 1);
       kernels::gate_residual(x, x, {filled(DType::bf16, {3, 48}, 1), 2}, filled(DType::i64, {2}, 3), y);
     }},
    {"branch_of_another_shape", "gate_residual: branch is 2x4, expected 2x8",
     [](Tensor& y) {
       kernels::gate_residual(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {2, 4}, 1),
                              {filled(DType::bf16, {3, 48}, 1), 2}, filled(DType::i64, {2}, 0), y);
     }},
    {"fp32_stream", "residual: y is bf16, expected fp32",
     [](Tensor& y) {
       const Tensor x = filled(DType::fp32, {2, 8}, 1);
       kernels::residual(x, x, y);
     }},
    {"gradient_of_another_table", "gate_residual_backward: dgate has 2 table rows, expected 3",
     [](Tensor& y) {
       const Tensor x = filled(DType::bf16, {2, 8}, 1);
       kernels::gate_residual_backward(x, {filled(DType::bf16, {3, 48}, 1), 2}, filled(DType::i64, {2}, 0), x,
                                       y, {filled(DType::bf16, {2, 8}, 0)});
     }},
    {"gradient_in_fp32", "gate_residual_backward: dy is fp32, expected bf16",
     [](Tensor& y) {
       kernels::gate_residual_backward(filled(DType::bf16, {2, 8}, 1), {filled(DType::bf16, {3, 48}, 1), 2},
                                       filled(DType::i64, {2}, 0), filled(DType::fp32, {2, 8}, 1), y,
                                       {filled(DType::bf16, {3, 8}, 0)});
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, GateResidualBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
