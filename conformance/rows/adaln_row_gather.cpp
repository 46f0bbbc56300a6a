// RFC row adaln_row_gather: copies, bit for bit; and the index it gathers by.
#include "kernels/adaln_row_gather.h"

#include "conformance/rows/on_cuda.h"
#include "golden/adaln_row_gather.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct AdalnRowGather : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const std::int64_t timesteps = 3;
    if (std::string(row.row) == "adaln_index") {
      const Tensor steps = index_operand(row.seed, row.rows, timesteps);
      const Tensor tags = index_operand(row.seed + 1, row.rows, 3);
      return {{steps, tags},
              [](const auto& operands, Tensor& y) {
                kernels::adaln_index(operands[0], operands[1], timesteps, y);
              },
              golden::adaln_index(steps, tags, timesteps),
              DType::i64};
    }
    const Tensor table = synthetic_activation(row.seed, "table", {3 * timesteps, 6 * row.cols}, row.dtype);
    const Tensor index = index_operand(row.seed, row.rows, 3 * timesteps);
    Tensor part(DType::fp32, {3 * timesteps, row.cols});
    for (std::int64_t i = 0; i < part.elements(); ++i)
      part.data<float>()[i] = table.at(i / row.cols * table.cols() + 4 * row.cols + i % row.cols);
    return {{index},
            [table](const auto& operands, Tensor& y) {
              kernels::adaln_row_gather({table, std::int64_t(Modulation::scale_mlp)}, operands[0], y);
            },
            golden::adaln_row_gather(part, index),
            row.dtype,
            {},
            H3_ON_CUDA([table](const auto& operands, Tensor& y) {
              kernels::cuda::adaln_row_gather({cuda::upload(table), std::int64_t(Modulation::scale_mlp)},
                                              {operands[0], 9}, y, nullptr);
            })};
  }
};

TEST_P(AdalnRowGather, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(AdalnRowGather, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(AdalnRowGather, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(AdalnRowGather, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(AdalnRowGather, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(AdalnRowGather, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"adaln_index", 264, 1, DType::i64},  // on the CPU only: launches take the finished index
    {"adaln_row_gather", 264, 5376},
    {"adaln_row_gather", 71, 24, DType::fp16, 11},
    {"adaln_row_gather", 71, 24, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnRowGather, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(AdalnRowGather, std::span(kRows).subspan(1));

// ---- backward: one rounding; in fp32 the additions of a run of up to 128 rows, and of two runs

struct AdalnRowGatherSums : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, row.cols}, row.dtype);
    const Tensor index = uneven_index(row.rows, 9);
    return {{dy, index},
            [](const auto& operands, Tensor& y) {
              kernels::adaln_row_gather_backward(operands[0], operands[1], {y});
            },
            golden::adaln_row_gather_backward(dy, index, 9),
            row.dtype,
            row.dtype == DType::fp32 ? Bound{.relative_l2 = std::sqrt(128.0) * 0x1p-24}
                                     : after_roundings(1, row.dtype),
            H3_ON_CUDA([](const auto& operands, Tensor& y) {
              const cuda::RowIndex rows(operands[1], 9);
              Tensor memory = workspace(rows.runs() * y.cols());
              kernels::cuda::adaln_row_gather_backward(cuda::upload(operands[0]), rows, {y}, memory, nullptr);
            })};
  }
};
H3_SUM_CLAIMS(AdalnRowGatherSums)

constexpr RowCase kSums[] = {
    {"adaln_row_gather", 264, 5376},
    {"adaln_row_gather", 135, 264, DType::fp32, 11},  // 127, 128 and 129 rows of one table row
    {"adaln_row_gather", 136, 263, DType::fp16, 11},
    {"adaln_row_gather", 137, 264},
    {"adaln_row_gather", 1, 264},
    {"adaln_row_gather", 18000, 136},  // more than 128 runs
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnRowGatherSums, testing::ValuesIn(kSums), row_name);
H3_SUMS_ON_CUDA(AdalnRowGatherSums, kSums);

// ---- bad input

struct AdalnRowGatherBadInput : testing::TestWithParam<BadInput> {};
TEST_P(AdalnRowGatherBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"tag_past_the_modalities",
     "adaln_index: tags[1] is 3, expected 0..2",
     [](Tensor& y) {
       kernels::adaln_index(listed_index({0, 1}), listed_index({2, 3}), 2, y);
     },
     DType::i64,
     {2}},
    {"timestep_past_the_last",
     "adaln_index: timestep_indices[0] is 2, expected 0..1",
     [](Tensor& y) {
       kernels::adaln_index(listed_index({2, 1}), listed_index({0, 0}), 2, y);
     },
     DType::i64,
     {2}},
    {"row_past_the_table", "adaln_row_gather: index[1] is 6, expected 0..5",
     [](Tensor& y) {
       kernels::adaln_row_gather({filled(DType::bf16, {6, 48}, 1), 0}, listed_index({0, 6}), y);
     }},
    {"table_of_another_dtype", "adaln_row_gather: table is fp32, expected bf16",
     [](Tensor& y) {
       kernels::adaln_row_gather({filled(DType::fp32, {6, 48}, 1), 0}, listed_index({0, 1}), y);
     }},
    {"gradient_index_past_the_table",
     "adaln_row_gather_backward: index[1] is 3, expected 0..2",
     [](Tensor& y) {
       kernels::adaln_row_gather_backward(filled(DType::bf16, {2, 8}, 1), listed_index({0, 3}), {y});
     },
     DType::bf16,
     {3, 8}},
};
INSTANTIATE_TEST_SUITE_P(rows, AdalnRowGatherBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
