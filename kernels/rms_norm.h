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

namespace cuda {

// The same on Hopper, bit for bit; tensors on the GPU, refused before the launch when they do not fit.
void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Stream stream);
void modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const TablePart& shift,
                        const TablePart& scale, const h3::cuda::RowIndex& index, Tensor& y, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
