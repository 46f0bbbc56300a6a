// RMS norm, plain and modulated. RFC row h3_rmsnorm: nodes norm1, norm2, the refiner's norms, and inside
// norm_out. The order is PyTorch's vectorised layer-norm kernel on a GPU, and the bits are its own.
//
// Arithmetic, FP32, one rounding per operation; T the type of x and y, R rounds to T:
//   128 partial sums per row; partial t takes the 4-element vectors t, t + 128, ... in order, element by
//   element, by FMA from 0. In each group of 32 the partials are added by a halving tree (16, 8, 4, 2, 1),
//   then the four groups (0 + 2) + (1 + 3). mean = sum / N; r = rsqrt.approx(mean + eps); n = R(w * (r * x)).
//   Modulated: y = R(R(n * R(1 + scale)) + shift), scale and shift the table row of that row of x.
// A row depends on itself alone.
//
// Backward, in the order of PyTorch's kernel with the FMAs its compiler makes; r as above:
//   128 partial sums per row over the same vectors: partial = fma(r, (dy * w) * x, partial) from 0; the same
//   trees; sum is theirs. dx = R(((1 / N) * r) * fma(dy, N * w, -((r * x) * sum))).
//   dweight = R(row sum of (dy * x) * r), the row sum of kernels/numerics/row_sum.h.
//   Modulated: dn = R(dy * R(1 + scale)) stands for dy in both. For every table row dshift = R(row sum of dy)
//   and dscale = R(row sum of R(dy * n)) over its rows, 0 where it has none; dweight takes the rows table row
//   after table row.
// dx of a row depends on that row alone.
//
// Errors: mixed dtypes, N not a multiple of 4, shapes that do not fit, an index outside the table.
#pragma once

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "kernels/table_part.h"

namespace h3::kernels {

// x (..., N) bf16, fp16 or fp32; weight (N) and y (..., N) of the same dtype.
void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y);

// x (S, N); shift and scale parts of N columns of tables (R, parts * N); index (S) i64 in [0, R).
void modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const TablePart& shift,
                        const TablePart& scale, const Tensor& index, Tensor& y);

// dy, dx (..., N), dweight (N), all of the type of x.
void rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                       Tensor& dweight);

// dshift, dscale: parts of the table's gradient, every row of them written.
void modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const TablePart& scale,
                                 const Tensor& index, const Tensor& dy, Tensor& dx, Tensor& dweight,
                                 TablePart dshift, TablePart dscale);

namespace cuda {

// The same on Hopper, bit for bit; tensors on the GPU, refused before the launch when they do not fit.
// `workspace` is fp32 with at least as many elements as the function beside says.
void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Stream stream);
void modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const TablePart& shift,
                        const TablePart& scale, const h3::cuda::RowIndex& index, Tensor& y, Stream stream);
void rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                       Tensor& dweight, Tensor& workspace, Stream stream);
std::int64_t rms_norm_workspace(std::int64_t rows, std::int64_t cols);
void modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const TablePart& scale,
                                 const h3::cuda::RowIndex& index, const Tensor& dy, Tensor& dx,
                                 Tensor& dweight, TablePart dshift, TablePart dscale, Tensor& workspace,
                                 Stream stream);
std::int64_t modulated_rms_norm_workspace(const h3::cuda::RowIndex& index, std::int64_t cols);

}  // namespace cuda

}  // namespace h3::kernels
