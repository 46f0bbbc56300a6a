// h = value * silu(gate). Node swiglu, RFC row h3_swiglu. The first half of a row is the value, the second
// the gate.
//
// Arithmetic: g = R(x / (1 + expf(-x))) of the gate in FP32, one rounding to BF16; h = R(value * g).
//
// Errors: wrong dtype, shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S, 2F) bf16 -> h (S, F) bf16.
void swiglu(const Tensor& x, Tensor& h);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void swiglu(const Tensor& x, Tensor& h, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
