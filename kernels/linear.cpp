#include "kernels/linear.h"

#include <algorithm>

#include "kernels/numerics/chain.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/rows.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

// Rows of FP32 sums held at once where the result is BF16: 128 MiB at the widest projection.
constexpr std::int64_t kRowsAtOnce = 1024;

void require_matrix(const char* what, const Tensor& tensor) {
  require(!tensor.empty() && tensor.shape().size() >= 2 && tensor.elements() > 0,
          "{}: shape {}, expected a non-empty matrix", what, to_string(tensor.shape()));
}

void require_operand(const char* what, const Tensor& tensor) {
  require_matrix(what, tensor);
  require(tensor.dtype() == DType::bf16, "{}: {}, expected bf16", what, name_of(tensor.dtype()));
}

void require_result(const char* what, const Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  require_matrix(what, tensor);
  require(tensor.dtype() == DType::bf16 || tensor.dtype() == DType::fp32, "{}: {}, expected bf16 or fp32",
          what, name_of(tensor.dtype()));
  require(tensor.rows() == rows && tensor.cols() == cols, "{}: shape {}, expected {} rows of {}", what,
          to_string(tensor.shape()), rows, cols);
}

void add_bias(float* sums, std::int64_t rows, const Tensor& bias) {
  const Bf16* terms = bias.data<Bf16>();
  const std::int64_t cols = bias.elements();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < cols; ++col) sums[row * cols + col] += to_float(terms[col]);
}

// out = R(chain(a, b) + bias), or the FP32 value where out is fp32.
void product(const numerics::Operand& a, const numerics::Operand& b, const Tensor* bias, Tensor& out) {
  const std::int64_t cols = b.rows;
  if (out.dtype() == DType::fp32) {
    numerics::chain(a, b, nullptr, out.data<float>(), cols);
    if (bias != nullptr) add_bias(out.data<float>(), a.rows, *bias);
    return;
  }
  Tensor sums(DType::fp32, {std::min(kRowsAtOnce, a.rows), cols});
  for (std::int64_t first = 0; first < a.rows; first += kRowsAtOnce) {
    numerics::Operand part = a;
    part.data += first * a.row_stride;
    part.rows = std::min(kRowsAtOnce, a.rows - first);
    numerics::chain(part, b, nullptr, sums.data<float>(), cols);
    parallel_for(0, part.rows, 16, [&](std::int64_t row, std::int64_t last) {
      float* values = sums.data<float>() + row * cols;
      if (bias != nullptr) add_bias(values, last - row, *bias);
      Bf16* words = out.data<Bf16>() + (first + row) * cols;
      std::transform(values, values + (last - row) * cols, words, to_bf16);
    });
  }
}

}  // namespace

void linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y) {
  require_operand("linear: x", x);
  require_operand("linear: weight", weight);
  require(weight.cols() == x.cols(), "linear: weight has {} inputs, x has {}", weight.cols(), x.cols());
  if (bias != nullptr) {
    require(bias->dtype() == DType::bf16, "linear: bias: {}, expected bf16", name_of(bias->dtype()));
    require(!bias->empty() && bias->elements() == weight.rows(), "linear: bias: shape {}, expected {}",
            to_string(bias->shape()), weight.rows());
  }
  require_result("linear: y", y, x.rows(), weight.rows());
  product(numerics::rows_of(x), numerics::rows_of(weight), bias, y);
}

void linear_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx) {
  require_operand("linear_input_gradient: dy", dy);
  require_operand("linear_input_gradient: weight", weight);
  require(weight.rows() == dy.cols(), "linear_input_gradient: weight has {} outputs, dy has {}",
          weight.rows(), dy.cols());
  require_result("linear_input_gradient: dx", dx, dy.rows(), weight.cols());
  product(numerics::rows_of(dy), numerics::columns_of(weight), nullptr, dx);
}

void linear_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight) {
  require_operand("linear_weight_gradient: dy", dy);
  require_operand("linear_weight_gradient: x", x);
  require(dy.rows() == x.rows(), "linear_weight_gradient: dy has {} rows, x has {}", dy.rows(), x.rows());
  require_result("linear_weight_gradient: dweight", dweight, dy.cols(), x.cols());
  product(numerics::columns_of(dy), numerics::columns_of(x), nullptr, dweight);
}

void linear_bias_gradient(const Tensor& dy, Tensor& dbias) {
  require_operand("linear_bias_gradient: dy", dy);
  require(!dbias.empty() && dbias.dtype() == DType::bf16 && dbias.shape() == Shape{dy.cols()},
          "linear_bias_gradient: dbias: {} {}, expected bf16 {}", name_of(dbias.dtype()),
          to_string(dbias.shape()), dy.cols());
  numerics::sum_rows(
      numerics::one_segment(dy.rows()), dy.cols(),
      [&](std::int64_t row, std::int64_t first, std::int64_t count, float* terms) {
        numerics::widen(dy, row * dy.cols() + first, count, terms);
      },
      [&](std::int64_t, std::int64_t first, std::int64_t count, const float* sum) {
        numerics::narrow(sum, first, count, dbias);
      });
}

}  // namespace h3::kernels
