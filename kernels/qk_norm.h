// RMS norm of every head of q or k, one weight for all heads. Nodes q_norm, k_norm, RFC row
// h3_qk_rmsnorm_d128.
//
// Arithmetic: kernels/rms_norm.h, plain, over the d channels of a head (with d = 128 each of the first 32
// partials holds one vector and the rest are zero). One rounding. v is not normed. Backward likewise; dweight
// sums over the (row, head) pairs in the order of memory.
//
// Errors: as rms_norm; a width that is not a whole number of heads.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S, heads, d) or (S, heads * d) bf16, fp16 or fp32; weight (d) and y (shape of x) of the same dtype.
void qk_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y);

// dy, dx in the shape of x, dweight (d), all of the type of x.
void qk_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                      Tensor& dweight);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
// `workspace` is fp32 with at least rms_norm_workspace(S * heads, d) elements (kernels/rms_norm.h).
void qk_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Stream stream);
void qk_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                      Tensor& dweight, Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
