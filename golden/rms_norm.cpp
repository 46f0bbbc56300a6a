#include "golden/rms_norm.h"

#include <cmath>

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

double inverse_rms(const float* x, std::int64_t cols, double eps) {
  double squares = 0;
  for (std::int64_t c = 0; c < cols; ++c) squares += double(x[c]) * double(x[c]);
  return 1 / std::sqrt(squares / double(cols) + eps);
}

// Relative error of the norm in FP32, before it is rounded to BF16.
double norm_unit(std::int64_t cols) { return fp32_sum_unit(cols) / 2 + 8 * kFp32Unit; }

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const std::int64_t cols = x.cols();
  require_shape("rms_norm", "weight", weight, {cols});
  const Tensor values = fp32(x), weights = fp32(weight);
  Tensor y(DType::fp32, x.shape());
  for_each_row(x.rows(), [&](std::int64_t s) {
    const float *row = values.data<float>() + s * cols, *w = weights.data<float>();
    const double r = inverse_rms(row, cols, eps);
    for (std::int64_t c = 0; c < cols; ++c)
      y.data<float>()[s * cols + c] = float(double(row[c]) * r * double(w[c]));
  });
  return y;
}

Tensor modulated_rms_norm(const Tensor& x, const Tensor& weight, double eps, const TablePart& shift,
                          const TablePart& scale, const Tensor& index) {
  const std::int64_t cols = x.cols();
  require_shape("modulated_rms_norm", "weight", weight, {cols});
  check_part("modulated_rms_norm", "shift", shift, cols);
  check_part("modulated_rms_norm", "scale", scale, cols);
  const auto chosen =
      checked_index("modulated_rms_norm", index, x.rows(), std::min(shift.table.rows(), scale.table.rows()));
  const Tensor values = fp32(x), weights = fp32(weight);
  Tensor y(DType::fp32, x.shape());
  for_each_row(x.rows(), [&](std::int64_t s) {
    const float *row = values.data<float>() + s * cols, *w = weights.data<float>();
    const float *add = shift.row(chosen[s], cols), *gain = scale.row(chosen[s], cols);
    const double r = inverse_rms(row, cols, eps);
    for (std::int64_t c = 0; c < cols; ++c) {
      const double normed = double(row[c]) * r * double(w[c]);
      y.data<float>()[s * cols + c] = float(normed * (1 + double(gain[c])) + double(add[c]));
    }
  });
  return y;
}

Tensor rms_norm_bound(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor y = rms_norm(x, weight, eps);
  return bound_of(y, [&](std::int64_t i) { return std::fabs(y.at(i)) * (kBf16Unit + norm_unit(x.cols())); });
}

Tensor modulated_rms_norm_bound(const Tensor& x, const Tensor& weight, double eps, const TablePart& shift,
                                const TablePart& scale, const Tensor& index) {
  const Tensor y = modulated_rms_norm(x, weight, eps, shift, scale, index);
  const std::int64_t cols = x.cols();
  return bound_of(y, [&](std::int64_t i) {
    const double product =
        double(y.at(i)) - double(shift.row(index.data<std::int64_t>()[i / cols], cols)[i % cols]);
    return std::fabs(product) * (3 * kBf16Unit + norm_unit(cols)) + std::fabs(y.at(i)) * kBf16Unit;
  });
}

}  // namespace h3::golden
