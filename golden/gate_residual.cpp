#include "golden/gate_residual.h"

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {

Tensor gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index) {
  const std::int64_t cols = x.cols();
  require_shape("gate_residual", "branch", branch, x.shape());
  check_part("gate_residual", "gate", gate, cols);
  const auto chosen = checked_index("gate_residual", index, x.rows(), gate.table.rows());
  const Tensor left = fp32(x), right = fp32(branch);
  Tensor y(DType::fp32, x.shape());
  for_each_row(x.rows(), [&](std::int64_t s) {
    const float* g = gate.row(chosen[s], cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t at = s * cols + c;
      y.data<float>()[at] =
          float(double(left.data<float>()[at]) + double(g[c]) * double(right.data<float>()[at]));
    }
  });
  return y;
}

Tensor residual(const Tensor& x, const Tensor& branch) {
  require_shape("residual", "branch", branch, x.shape());
  const Tensor left = fp32(x), right = fp32(branch);
  Tensor y(DType::fp32, x.shape());
  for (std::int64_t i = 0; i < y.elements(); ++i)
    y.data<float>()[i] = float(double(left.data<float>()[i]) + double(right.data<float>()[i]));
  return y;
}

Tensor gate_residual_bound(const Tensor& x, const Tensor& branch, const TablePart& gate,
                           const Tensor& index) {
  const Tensor y = gate_residual(x, branch, gate, index), left = fp32(x);
  return bound_of(y, [&](std::int64_t i) {
    return kBf16Unit * (std::fabs(double(y.at(i)) - double(left.at(i))) + std::fabs(y.at(i)));
  });
}

Tensor residual_bound(const Tensor& x, const Tensor& branch) {
  const Tensor y = residual(x, branch);
  return bound_of(y, [&](std::int64_t i) { return kBf16Unit * std::fabs(y.at(i)); });
}

}  // namespace h3::golden
