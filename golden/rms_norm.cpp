#include "golden/rms_norm.h"

#include <cmath>

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

double inverse_rms(const Reals& x, std::int64_t cols, double eps) {
  double squares = 0;
  for (std::int64_t c = 0; c < cols; ++c) squares += x[c] * x[c];
  return 1 / std::sqrt(squares / double(cols) + eps);
}

// Relative error of the norm in FP32, before it is rounded to BF16.
double norm_unit(std::int64_t cols) { return fp32_sum_unit(cols) / 2 + 8 * kFp32Unit; }

// The gradient of n = x w r for dn[s, c] = normed(s, c), with the r of every row, which the weight's sum
// needs.
template <class Gradient>
Tensor input_gradient(const Tensor& x, const Reals& weight, double eps, const Gradient& normed,
                      std::vector<double>& inverse) {
  const std::int64_t cols = x.cols();
  const Reals values(x);
  Tensor dx(border_of(x), x.shape());
  const Store out(dx);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals row = values + s * cols;
    const double r = inverse_rms(row, cols, eps);
    double projection = 0;
    for (std::int64_t c = 0; c < cols; ++c) projection += normed(s, c) * weight[c] * row[c];
    const double along = projection / double(cols) * r * r;
    for (std::int64_t c = 0; c < cols; ++c)
      out.set(s * cols + c, r * (normed(s, c) * weight[c] - row[c] * along));
    inverse[std::size_t(s)] = r;
  });
  return dx;
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const std::int64_t cols = x.cols();
  require_shape("rms_norm", "weight", weight, {cols});
  const Tensor values = widened(x), weights = widened(weight);
  Tensor y(border_of(x), x.shape());
  const Store out(y);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals row = Reals(values) + s * cols, w(weights);
    const double r = inverse_rms(row, cols, eps);
    for (std::int64_t c = 0; c < cols; ++c) out.set(s * cols + c, row[c] * r * w[c]);
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
  const Tensor values = widened(x), weights = widened(weight);
  Tensor y(border_of(x), x.shape());
  const Store out(y);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals row = Reals(values) + s * cols, w(weights);
    const Reals add = shift.row(chosen[s], cols), gain = scale.row(chosen[s], cols);
    const double r = inverse_rms(row, cols, eps);
    for (std::int64_t c = 0; c < cols; ++c) out.set(s * cols + c, row[c] * r * w[c] * (1 + gain[c]) + add[c]);
  });
  return y;
}

RmsNormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps,
                                   const Tensor& gradient) {
  const std::int64_t cols = x.cols();
  require_shape("rms_norm_backward", "weight", weight, {cols});
  require_shape("rms_norm_backward", "gradient", gradient, x.shape());
  const Tensor values = widened(x), weights = widened(weight), gradients = widened(gradient);
  const Reals in(values), dy(gradients);
  std::vector<double> r(std::size_t(x.rows()));
  const auto normed = [&](std::int64_t s, std::int64_t c) { return dy[s * cols + c]; };
  const Tensor dx = input_gradient(values, Reals(weights), eps, normed, r);
  return {dx, sums_over_rows(dx.dtype(), x.rows(), cols, [&](std::int64_t s, std::int64_t c) {
            return dy[s * cols + c] * in[s * cols + c] * r[std::size_t(s)];
          })};
}

ModulatedRmsNormGradients modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, double eps,
                                                      const TablePart& scale, const Tensor& index,
                                                      const Tensor& gradient) {
  const char* node = "modulated_rms_norm_backward";
  const std::int64_t cols = x.cols(), table_rows = scale.table.rows();
  require_shape(node, "weight", weight, {cols});
  require_shape(node, "gradient", gradient, x.shape());
  check_part(node, "scale", scale, cols);
  const auto chosen = checked_index(node, index, x.rows(), table_rows);
  const Tensor values = widened(x), weights = widened(weight), gradients = widened(gradient);
  const Reals in(values), w(weights), dy(gradients), gain(scale.table);
  std::vector<double> r(std::size_t(x.rows()));
  const auto normed = [&](std::int64_t s, std::int64_t c) {
    return dy[s * cols + c] * (1 + gain[chosen[s] * scale.table.cols() + scale.part * cols + c]);
  };
  const Tensor dx = input_gradient(values, w, eps, normed, r);
  const auto unit = [&](std::int64_t s, std::int64_t c) { return in[s * cols + c] * r[std::size_t(s)]; };
  const DType border = dx.dtype();
  return {dx,
          sums_over_rows(border, x.rows(), cols,
                         [&](std::int64_t s, std::int64_t c) { return normed(s, c) * unit(s, c); }),
          sums_by_index(border, chosen, table_rows, cols,
                        [&](std::int64_t s, std::int64_t c) { return dy[s * cols + c]; }),
          sums_by_index(border, chosen, table_rows, cols, [&](std::int64_t s, std::int64_t c) {
            return dy[s * cols + c] * unit(s, c) * w[c];
          })};
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
    const double product = double(y.at(i)) - shift.row(index.data<std::int64_t>()[i / cols], cols)[i % cols];
    return std::fabs(product) * (3 * kBf16Unit + norm_unit(cols)) + std::fabs(y.at(i)) * kBf16Unit;
  });
}

}  // namespace h3::golden
