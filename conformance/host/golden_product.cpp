// FP64 products: the ordered sum is the plain loop to the last bit, the library's sum is a second opinion.
#include <gtest/gtest.h>

#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "golden/product.h"
#include "model/parallel.h"

namespace h3 {
namespace {

using golden::Summation;

struct ProductRow {
  std::int64_t rows, cols, depth;
  DType weight;
  bool bias;
};
std::string name_of_row(const ProductRow& row) {
  return std::to_string(row.rows) + "x" + std::to_string(row.cols) + "x" + std::to_string(row.depth) + "_" +
         name_of(row.weight) + (row.bias ? "_bias" : "");
}
void PrintTo(const ProductRow& row, std::ostream* out) { *out << name_of_row(row); }

struct GoldenProduct : testing::TestWithParam<ProductRow> {
  const ProductRow& row = GetParam();
  Tensor x = random("x", {row.rows, row.depth}), weight = random("weight", {row.cols, row.depth}, row.weight);
  Tensor bias = random("bias", {row.cols}, row.weight);

  Tensor product(Summation summation, DType out = DType::fp64) const {
    return golden::product(x, weight, row.bias ? &bias : nullptr, summation, out);
  }
  void TearDown() override { set_thread_count(0); }
};

TEST_P(GoldenProduct, ordered_is_the_plain_loop) {
  const Tensor y = product(Summation::ordered), rounded = product(Summation::ordered, DType::fp32);
  for (std::int64_t m = 0; m < row.rows; ++m)
    for (std::int64_t n = 0; n < row.cols; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < row.depth; ++k)
        sum += double(x.at(m * row.depth + k)) * double(weight.at(n * row.depth + k));
      if (row.bias) sum += double(bias.at(n));
      ASSERT_EQ(y.data<double>()[m * row.cols + n], sum) << "row " << m << " column " << n;
      ASSERT_EQ(rounded.data<float>()[m * row.cols + n], float(sum)) << "row " << m << " column " << n;
    }
}

TEST_P(GoldenProduct, blas_agrees_before_rounding) {
  const Tensor ordered = product(Summation::ordered), blas = product(Summation::blas);
  double worst = 0, scale = 0;
  for (std::int64_t i = 0; i < ordered.elements(); ++i) {
    worst = std::max(worst, std::fabs(ordered.data<double>()[i] - blas.data<double>()[i]));
    scale = std::max(scale, std::fabs(ordered.data<double>()[i]));
  }
  EXPECT_LE(worst, 1e-12 * scale);
  EXPECT_GT(scale, 0);
}

TEST_P(GoldenProduct, does_not_depend_on_the_thread_count) {
  set_thread_count(1);
  const Tensor alone = product(Summation::ordered);
  for (const int threads : {2, 3, 7}) {
    set_thread_count(threads);
    EXPECT_TRUE(same_bytes(product(Summation::ordered), alone)) << threads << " threads";
  }
}

TEST_P(GoldenProduct, rows_do_not_depend_on_each_other) {
  const Tensor all = product(Summation::ordered);
  const std::int64_t first = row.rows / 2;
  const Tensor part = golden::product(x.row_range(first, row.rows - first), weight,
                                      row.bias ? &bias : nullptr, Summation::ordered, DType::fp64);
  EXPECT_TRUE(same_bytes(part, all.row_range(first, row.rows - first)));
}

TEST_P(GoldenProduct, shows_one_changed_weight) {
  const Tensor before = product(Summation::ordered);
  Tensor changed = weight.to(DType::fp32);
  changed.data<float>()[changed.elements() - 1] += 0.25f;  // last column, last k
  weight = changed.to(row.weight);
  const Tensor after = product(Summation::ordered);
  for (std::int64_t i = 0; i < before.elements(); ++i) {
    const bool last_column = i % row.cols == row.cols - 1;
    ASSERT_EQ(before.data<double>()[i] != after.data<double>()[i], last_column) << "element " << i;
  }
}

const ProductRow kProducts[] = {
    {1, 1, 1, DType::fp32, false},    {3, 5, 17, DType::bf16, false},      {4, 8, 512, DType::bf16, true},
    {5, 9, 513, DType::fp32, true},   {70, 130, 1030, DType::bf16, false}, {259, 67, 64, DType::bf16, true},
    {2, 2500, 40, DType::fp32, true},  // more columns than a BLAS panel
};
INSTANTIATE_TEST_SUITE_P(host, GoldenProduct, testing::ValuesIn(kProducts),
                         [](const auto& info) { return name_of_row(info.param); });

struct BadProductRow {
  const char* name;
  Shape x, weight, bias;
};
void PrintTo(const BadProductRow& row, std::ostream* out) { *out << row.name; }

struct GoldenProductShapes : testing::TestWithParam<BadProductRow> {};

TEST_P(GoldenProductShapes, must_fit) {
  const auto& row = GetParam();
  const Tensor bias(DType::fp32, row.bias);
  EXPECT_THROW(
      golden::product(Tensor(DType::fp32, row.x), Tensor(DType::fp32, row.weight), &bias, Summation::ordered),
      Error);
}

INSTANTIATE_TEST_SUITE_P(host, GoldenProductShapes,
                         testing::Values(BadProductRow{"depth", {2, 3}, {4, 5}, {4}},
                                         BadProductRow{"weight_extents", {2, 3}, {4, 1, 3}, {4}},
                                         BadProductRow{"bias", {2, 3}, {4, 3}, {3}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
