// Rotation of the leading channels of every head of q or k. Nodes rope_q, rope_k, RFC row
// h3_mm_rope_3axis_partial.
//
// Arithmetic: with half = table columns / 2 (48), c = R(cos), s = R(sin) rounded to BF16 first, i < half:
//   y[i]        = R(R(x[i] * c[i]) + R(-x[i + half] * s[i]))
//   y[i + half] = R(R(x[i + half] * c[i + half]) + R(x[i] * s[i + half]))
// products and sums in FP32, each rounded to BF16; channels from 2 * half (96) on are copied.
//
// Backward, the rotation by the opposite angle:
//   dx[i]        = R(R(dy[i] * c[i]) + R(dy[i + half] * s[i + half]))
//   dx[i + half] = R(R(dy[i + half] * c[i + half]) + R(-dy[i] * s[i]))
//
// Errors: wrong dtype or shape, more rotated channels than a head has.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S, heads, d) bf16, cos and sin (S, 2 * half) fp32 -> y (S, heads, d) bf16.
void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y);

// dy (S, heads, d) bf16, cos and sin (S, 2 * half) fp32 -> dx (S, heads, d) bf16.
void mm_rope_backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, Tensor& dx);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y, Stream stream);
void mm_rope_backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, Tensor& dx, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
