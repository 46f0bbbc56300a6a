// Cosine and sine tables of the three-axis rotary embedding, once per forward. Provider step
// MiniMaxH3RotaryPosEmbed; input of RFC row h3_mm_rope_3axis_partial.
//
// Arithmetic: inv[k] = f32(1 / f32(theta^(k/f))), k < f; p = f32(position); angle = f32(p * inv[k]); cosf and
// sinf of the CUDA math library (kernels/numerics/device_functions.h), kept in FP32. Columns t(f) | h(f) |
// w(f), then the same 3f again.
//
// Errors: wrong dtype or shape, a position that is not finite in FP32.
#pragma once

#include <vector>

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// The f = freq_dim inverse frequencies, as PyTorch computes them on a CPU.
std::vector<float> rotary_frequencies(std::int64_t freq_dim, double theta);

// positions (S,3) fp64: t, h, w -> cos, sin (S,6f) fp32.
void rotary_tables(const Tensor& positions, double theta, Tensor& cos, Tensor& sin);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. Positions stay on the CPU; waits for the stream.
void rotary_tables(const Tensor& positions, double theta, Tensor& cos, Tensor& sin, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
