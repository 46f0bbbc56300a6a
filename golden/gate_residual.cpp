#include "golden/gate_residual.h"

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {

Tensor gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index) {
  const std::int64_t cols = x.cols();
  require_shape("gate_residual", "branch", branch, x.shape());
  check_part("gate_residual", "gate", gate, cols);
  const auto chosen = checked_index("gate_residual", index, x.rows(), gate.table.rows());
  const Tensor values = widened(x), branches = widened(branch);
  const Reals left(values), right(branches);
  Tensor y(border_of(x), x.shape());
  const Store out(y);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals g = gate.row(chosen[s], cols);
    for (std::int64_t c = 0; c < cols; ++c)
      out.set(s * cols + c, left[s * cols + c] + g[c] * right[s * cols + c]);
  });
  return y;
}

Tensor residual(const Tensor& x, const Tensor& branch) {
  require_shape("residual", "branch", branch, x.shape());
  const Tensor values = widened(x), branches = widened(branch);
  const Reals left(values), right(branches);
  Tensor y(border_of(x), x.shape());
  const Store out(y);
  for (std::int64_t i = 0; i < y.elements(); ++i) out.set(i, left[i] + right[i]);
  return y;
}

GateResidualGradients gate_residual_backward(const Tensor& branch, const TablePart& gate, const Tensor& index,
                                             const Tensor& gradient) {
  const std::int64_t cols = branch.cols(), table_rows = gate.table.rows();
  require_shape("gate_residual_backward", "gradient", gradient, branch.shape());
  check_part("gate_residual_backward", "gate", gate, cols);
  const auto chosen = checked_index("gate_residual_backward", index, branch.rows(), table_rows);
  const Tensor branches = widened(branch), gradients = widened(gradient);
  const Reals values(branches), dy(gradients);
  Tensor dbranch(border_of(branch), branch.shape());
  const Store out(dbranch);
  for_each_row(branch.rows(), [&](std::int64_t s) {
    const Reals g = gate.row(chosen[s], cols);
    for (std::int64_t c = 0; c < cols; ++c) out.set(s * cols + c, dy[s * cols + c] * g[c]);
  });
  return {dbranch,
          sums_by_index(dbranch.dtype(), chosen, table_rows, cols, [&](std::int64_t s, std::int64_t c) {
            return dy[s * cols + c] * values[s * cols + c];
          })};
}

Tensor gate_residual_bound(const Tensor& x, const Tensor& branch, const TablePart& gate,
                           const Tensor& index) {
  const Tensor y = gate_residual(x, branch, gate, index), left = widened(x);
  return bound_of(y, [&](std::int64_t i) {
    return kBf16Unit * (std::fabs(double(y.at(i)) - double(left.at(i))) + std::fabs(y.at(i)));
  });
}

Tensor residual_bound(const Tensor& x, const Tensor& branch) {
  const Tensor y = residual(x, branch);
  return bound_of(y, [&](std::int64_t i) { return kBf16Unit * std::fabs(y.at(i)); });
}

}  // namespace h3::golden
