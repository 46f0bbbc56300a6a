// FP64 products: the ordered sum is the plain loop to the last bit, the library's sum is a second opinion.
#include <gtest/gtest.h>

#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "golden/bound.h"
#include "golden/product.h"
#include "harness/compare/first_difference.h"
#include "model/parallel.h"

namespace h3 {
namespace {

using golden::Summation;
using testing::AssertionResult;

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
  Tensor bias = random("bias", {row.cols}, row.weight), dy = random("dy", {row.rows, row.cols});

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

// Every sum of n products, in whatever order, fused or not, lies within n u sum |terms| of the exact one.
AssertionResult within_the_error_of_sums(const Tensor& ordered, const Tensor& library,
                                         const Tensor& magnitudes, std::int64_t terms) {
  for (std::int64_t i = 0; i < ordered.elements(); ++i) {
    const double apart = std::fabs(ordered.data<double>()[i] - library.data<double>()[i]);
    const double limit = 2 * double(terms + 1) * 0x1p-53 * magnitudes.data<double>()[i];
    if (!(apart <= limit))
      return testing::AssertionFailure() << "element " << i << ": " << apart << " apart, limit " << limit;
  }
  return testing::AssertionSuccess();
}

TEST_P(GoldenProduct, ordered_gradients_are_the_plain_loops) {
  const Tensor dx = golden::input_gradient(dy, weight, Summation::ordered, DType::fp64),
               dw = golden::weight_gradient(dy, x, Summation::ordered, DType::fp64),
               db = golden::bias_gradient(dy, DType::fp64);
  ASSERT_EQ(dx.shape(), x.shape());
  ASSERT_EQ(dw.shape(), weight.shape());
  ASSERT_EQ(db.shape(), bias.shape());
  const auto dy_at = [&](std::int64_t m, std::int64_t n) { return double(dy.at(m * row.cols + n)); };
  for (std::int64_t k = 0; k < row.depth; ++k) {
    for (std::int64_t m = 0; m < row.rows; ++m) {
      double sum = 0;
      for (std::int64_t n = 0; n < row.cols; ++n) sum += dy_at(m, n) * double(weight.at(n * row.depth + k));
      ASSERT_EQ(dx.data<double>()[m * row.depth + k], sum) << "dx, row " << m << " column " << k;
    }
    for (std::int64_t n = 0; n < row.cols; ++n) {
      double sum = 0;
      for (std::int64_t m = 0; m < row.rows; ++m) sum += dy_at(m, n) * double(x.at(m * row.depth + k));
      ASSERT_EQ(dw.data<double>()[n * row.depth + k], sum) << "dW, row " << n << " column " << k;
    }
  }
  for (std::int64_t n = 0; n < row.cols; ++n) {
    double sum = 0;
    for (std::int64_t m = 0; m < row.rows; ++m) sum += dy_at(m, n);
    ASSERT_EQ(db.data<double>()[n], sum) << "db, column " << n;
  }
}

TEST_P(GoldenProduct, gradients_of_a_library_lie_within_the_error_of_sums) {
  const auto dx = [&](const Tensor& dy, const Tensor& weight, Summation summation) {
    return golden::input_gradient(dy, weight, summation, DType::fp64);
  };
  const auto dw = [&](const Tensor& dy, const Tensor& x, Summation summation) {
    return golden::weight_gradient(dy, x, summation, DType::fp64);
  };
  const Tensor dx_terms = dx(golden::absolute(dy), golden::absolute(weight), Summation::ordered),
               dw_terms = dw(golden::absolute(dy), golden::absolute(x), Summation::ordered);
  const Tensor dx_blas = dx(dy, weight, Summation::blas), dw_blas = dw(dy, x, Summation::blas);
  EXPECT_TRUE(within_the_error_of_sums(dx(dy, weight, Summation::ordered), dx_blas, dx_terms, row.cols));
  EXPECT_TRUE(within_the_error_of_sums(dw(dy, x, Summation::ordered), dw_blas, dw_terms, row.rows));

  Tensor changed = dy.clone();  // by a unit of its last FP32 place, in one element of dy
  changed.data<float>()[dy.elements() - 1] *= 1 + 0x1p-22f;
  EXPECT_FALSE(
      within_the_error_of_sums(dx(changed, weight, Summation::ordered), dx_blas, dx_terms, row.cols));
  EXPECT_FALSE(within_the_error_of_sums(dw(changed, x, Summation::ordered), dw_blas, dw_terms, row.rows));
}

TEST_P(GoldenProduct, does_not_depend_on_the_thread_count) {
  set_thread_count(1);
  const auto gradients = [&] {
    return std::pair(golden::input_gradient(dy, weight, Summation::ordered),
                     golden::weight_gradient(dy, x, Summation::ordered));
  };
  const Tensor alone = product(Summation::ordered);
  const auto [dx, dw] = gradients();
  for (const int threads : {2, 3, 7}) {
    set_thread_count(threads);
    EXPECT_TRUE(identical(product(Summation::ordered), alone)) << threads << " threads";
    EXPECT_TRUE(identical(gradients().first, dx)) << threads << " threads";
    EXPECT_TRUE(identical(gradients().second, dw)) << threads << " threads";
  }
}

TEST_P(GoldenProduct, rows_do_not_depend_on_each_other) {
  const Tensor all = product(Summation::ordered);
  const std::int64_t first = row.rows / 2;
  const Tensor part = golden::product(x.row_range(first, row.rows - first), weight,
                                      row.bias ? &bias : nullptr, Summation::ordered, DType::fp64);
  EXPECT_TRUE(identical(part, all.row_range(first, row.rows - first)));
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
    {1, 1, 1, DType::fp32, false},      {3, 5, 17, DType::bf16, false},      {4, 8, 512, DType::bf16, true},
    {5, 9, 513, DType::fp32, true},     {70, 130, 1030, DType::bf16, false}, {259, 67, 64, DType::bf16, true},
    {2, 2500, 40, DType::fp32, true},    // more columns than a BLAS panel
    {17, 33, 2100, DType::bf16, false},  // and of the gradients
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
