// y = x + gate * branch, x the stream as it entered the half block. Nodes residual_attn, residual_mlp, RFC
// row adaln_gate_residual; without a gate the refiner's residuals.
//
// Arithmetic: p = R(gate * branch), y = R(x + p), FP32 inside each operation. Without a gate y = R(x +
// branch).
//
// Backward, for the branch and its gate (the gradient of x is dy itself): dbranch = R(gate * dy); dgate[e] =
// R(row sum of R(dy * branch) over the rows of table row e), the row sum of kernels/numerics/row_sum.h; a
// table row without rows gets 0. Without a gate both gradients are dy.
//
// `residual` also adds up gradients, as autograd does where a value has several consumers; in FP32, which
// time embedding and output norm have, without a rounding to BF16.
//
// Errors: wrong dtype, shapes that do not fit, an index outside the table.
#pragma once

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "kernels/table_part.h"

namespace h3::kernels {

// x, branch (S, C) bf16; gate a part of C columns of a bf16 table; index (S) i64 -> y (S, C) bf16.
void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index,
                   Tensor& y);

// All three bf16, or all three fp32.
void residual(const Tensor& x, const Tensor& branch, Tensor& y);

// dy (S, C) bf16 -> dbranch (S, C) bf16; dgate, the gate's part of the table's gradient, every row of it
// written.
void gate_residual_backward(const Tensor& branch, const TablePart& gate, const Tensor& index,
                            const Tensor& dy, Tensor& dbranch, TablePart dgate);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
// `workspace` is fp32 with at least gate_residual_workspace(index, C) elements.
void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate,
                   const h3::cuda::RowIndex& index, Tensor& y, Stream stream);
void residual(const Tensor& x, const Tensor& branch, Tensor& y, Stream stream);
void gate_residual_backward(const Tensor& branch, const TablePart& gate, const h3::cuda::RowIndex& index,
                            const Tensor& dy, Tensor& dbranch, TablePart dgate, Tensor& workspace,
                            Stream stream);
std::int64_t gate_residual_workspace(const h3::cuda::RowIndex& index, std::int64_t cols);

}  // namespace cuda

}  // namespace h3::kernels
