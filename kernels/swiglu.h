// h = value * silu(gate). Node swiglu, RFC row h3_swiglu. The first half of a row is the value, the second
// the gate.
//
// Arithmetic: g = R(x / (1 + expf(-x))) of the gate in FP32, one rounding to BF16; h = R(value * g).
//
// Backward: dvalue = R(dh * g); t = R(dh * value); dgate = R((t * s) * fma(gate, 1 - s, 1)) with s = 1 / (1 +
// expf(-gate)) in FP32, as PyTorch differentiates silu.
//
// Errors: wrong dtype, shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S, 2F) bf16 -> h (S, F) bf16.
void swiglu(const Tensor& x, Tensor& h);

// x (S, 2F), dh (S, F) bf16 -> dx (S, 2F) bf16, the value's gradient first.
void swiglu_backward(const Tensor& x, const Tensor& dh, Tensor& dx);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void swiglu(const Tensor& x, Tensor& h, Stream stream);
void swiglu_backward(const Tensor& x, const Tensor& dh, Tensor& dx, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
