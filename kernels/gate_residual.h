// y = x + gate * branch, x the stream as it entered the half block. Nodes residual_attn, residual_mlp, RFC
// row adaln_gate_residual; without a gate the refiner's residuals.
//
// Arithmetic: p = R(gate * branch), y = R(x + p), FP32 inside each operation. Without a gate y = R(x +
// branch).
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

void residual(const Tensor& x, const Tensor& branch, Tensor& y);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const h3::cuda::RowIndex& index,
                   Tensor& y, Stream stream);
void residual(const Tensor& x, const Tensor& branch, Tensor& y, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
