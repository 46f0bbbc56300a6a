// The order of every sum over rows (kernels/numerics/row_sum.h), held against its definition, and the bias
// gradient.
#include "kernels/numerics/row_sum.h"

#include <bit>

#include "conformance/rows/on_cuda.h"
#include "golden/linear.h"
#include "kernels/linear.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

// The definition, one column: a tree of terms [first, end), halves of a power of two first.
float tree(std::span<const float> terms, std::size_t width) {
  if (terms.size() == 1) return terms[0];
  if (terms.size() <= width / 2) return tree(terms, width / 2);
  return tree(terms.first(width / 2), width / 2) + tree(terms.subspan(width / 2), width / 2);
}

// A run: groups of eight, one after the other.
float sum_of_run(std::span<const float> terms) {
  float sum = tree(terms.first(std::min<std::size_t>(8, terms.size())), 8);
  for (std::size_t i = 8; i < terms.size(); i += 8)
    sum += tree(terms.subspan(i, std::min<std::size_t>(8, terms.size() - i)), 8);
  return sum;
}

// Runs of 128 terms, then the same of their sums.
float sum_by_definition(std::span<const float> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1) return terms[0];
  std::vector<float> sums;
  for (std::size_t i = 0; i < terms.size(); i += 128)
    sums.push_back(sum_of_run(terms.subspan(i, std::min<std::size_t>(128, terms.size() - i))));
  return sum_by_definition(sums);
}

struct RowSumOrder : testing::TestWithParam<std::int64_t> {
  Tensor terms() const { return synthetic_activation(7, "terms", {GetParam(), 3}, DType::fp32, 100); }
  static std::vector<float> column(const Tensor& terms, std::int64_t c) {
    std::vector<float> values;
    for (std::int64_t s = 0; s < terms.rows(); ++s) values.push_back(terms.at(3 * s + c));
    return values;
  }
};

TEST_P(RowSumOrder, is_its_definition) {
  const Tensor all = terms();
  numerics::RowSum sum(3);
  for (int again = 0; again < 2; ++again) {  // finish() leaves nothing behind
    for (std::int64_t s = 0; s < GetParam(); ++s) sum.add(all.data<float>() + 3 * s);
    float result[3];
    sum.finish(result);
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(result[c]),
                std::bit_cast<std::uint32_t>(sum_by_definition(column(all, c))));
  }
}

// Runs that end early are terms of the second level like any other.
TEST_P(RowSumOrder, ends_a_run_where_a_segment_ends) {
  const Tensor all = terms();
  const std::int64_t first_segment = GetParam() / 3;
  numerics::RowSum sum(3);
  std::vector<float> runs;
  for (const auto& [begin, end] :
       {std::pair{std::int64_t(0), first_segment}, std::pair{first_segment, GetParam()}}) {
    for (std::int64_t s = begin; s < end; ++s) sum.add(all.data<float>() + 3 * s);
    sum.end_run();
    const std::vector<float> first_column = column(all, 0);
    for (std::int64_t s = begin; s < end; s += 128)
      runs.push_back(
          sum_of_run(std::span(first_column)
                         .subspan(std::size_t(s), std::size_t(std::min<std::int64_t>(128, end - s)))));
  }
  float result[3];
  sum.finish(result);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(result[0]), std::bit_cast<std::uint32_t>(sum_by_definition(runs)));
}

INSTANTIATE_TEST_SUITE_P(rows, RowSumOrder,
                         testing::Values(0, 1, 2, 127, 128, 129, 256, 16383, 16384, 16385, 33000),
                         [](const auto& info) { return std::to_string(info.param) + "_rows"; });

struct SegmentRow {
  const char* name;
  std::vector<std::int64_t> index, rows, first;  // first has one more than there are segments
};
void PrintTo(const SegmentRow& row, std::ostream* out) { *out << row.name; }

struct RowSumSegments : testing::TestWithParam<SegmentRow> {};

TEST_P(RowSumSegments, keep_the_order_of_the_sequence) {
  const SegmentRow& row = GetParam();
  const auto segments = numerics::segments_of(row.index, std::int64_t(row.first.size()) - 1);
  EXPECT_EQ(segments.rows, row.rows);
  EXPECT_EQ(segments.first, row.first);
}

const SegmentRow kSegments[] = {
    {"two_empty_ones", {2, 0, 2, 4, 0, 2}, {1, 4, 0, 2, 5, 3}, {0, 2, 2, 5, 5, 6}},
    {"one_row", {1}, {0}, {0, 0, 1}},
    {"backwards", {2, 1, 0}, {2, 1, 0}, {0, 1, 2, 3}},
};
INSTANTIATE_TEST_SUITE_P(rows, RowSumSegments, testing::ValuesIn(kSegments),
                         [](const auto& info) { return info.param.name; });

// ---- the gradient of a bias: one rounding

struct LinearBias : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor dy = synthetic_activation(row.seed, "dy", {row.rows, row.cols}, DType::bf16);
    return {{dy},
            [](const auto& operands, Tensor& y) { kernels::linear_bias_gradient(operands[0], y); },
            golden::linear_backward(filled(DType::bf16, {row.rows, 1}, 0),
                                    filled(DType::bf16, {row.cols, 1}, 0), dy)
                .bias,
            DType::bf16,
            after_roundings(1, DType::bf16),
            H3_ON_CUDA([](const auto& operands, Tensor& y) {
              Tensor memory =
                  workspace(kernels::cuda::linear_bias_workspace(operands[0].rows(), operands[0].cols()));
              kernels::cuda::linear_bias_gradient(cuda::upload(operands[0]), y, memory);
            })};
  }
};
H3_SUM_CLAIMS(LinearBias)

constexpr RowCase kBiases[] = {
    {"context_embedder", 104, 5376}, {"context_embedder", 1, 264},   {"context_embedder", 127, 264},
    {"context_embedder", 128, 264},  {"context_embedder", 129, 263}, {"context_embedder", 16500, 136},
};
INSTANTIATE_TEST_SUITE_P(rows, LinearBias, testing::ValuesIn(kBiases), row_name);
H3_SUMS_ON_CUDA(LinearBias, kBiases);

}  // namespace
}  // namespace h3
