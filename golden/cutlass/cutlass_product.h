// The projections' products as CUTLASS computes them: a second implementation, on another matrix instruction,
// written by others, that strict products are held against. Only in builds that find CUTLASS.
//
// BF16 operands on the GPU, FP32 sums, BF16 results; the mainloop walks the depth in ascending steps and
// splits nothing. Errors: what CUTLASS refuses, by its own name for it.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::second {

// x (S,K), weight (N,K) -> y (S,N).
void cutlass_forward(const Tensor& x, const Tensor& weight, Tensor& y, Stream stream);
// dy (S,N), weight (N,K) -> dx (S,K).
void cutlass_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream);
// dy (S,N), x (S,K) -> dweight (N,K).
void cutlass_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream);

}  // namespace h3::second
