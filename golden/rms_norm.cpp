#include "golden/rms_norm.h"

#include <cmath>

#include "golden/values.h"

namespace h3::golden {
namespace {

double inverse_rms(const float* x, std::int64_t cols, double eps) {
  double squares = 0;
  for (std::int64_t c = 0; c < cols; ++c) squares += double(x[c]) * double(x[c]);
  return 1 / std::sqrt(squares / double(cols) + eps);
}

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

}  // namespace h3::golden
