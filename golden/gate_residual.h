// Nodes residual_attn, residual_mlp: y = x + gate[index] * branch, x the un-normalised block input.
//   x, branch (S, C); gate a table part of C columns; index (S) int64. The refiner's residuals have no gate.
#pragma once

#include "golden/table_part.h"

namespace h3::golden {

Tensor gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index);
Tensor residual(const Tensor& x, const Tensor& branch);

// Roundings of the gated branch (none without a gate) and of the sum.
Tensor gate_residual_bound(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index);
Tensor residual_bound(const Tensor& x, const Tensor& branch);

// dbranch = dy gate[index]; a row of the gate sums dy branch over the rows that chose it: (R, C), the part
// alone. The gradient of x is dy itself, and without a gate the branch's is, too.
struct GateResidualGradients {
  Tensor branch, gate;
};
GateResidualGradients gate_residual_backward(const Tensor& branch, const TablePart& gate, const Tensor& index,
                                             const Tensor& gradient);

}  // namespace h3::golden
