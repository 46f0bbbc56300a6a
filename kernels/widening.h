// A BF16 tensor in FP32, exactly: what the FP32 heads read. The provider's cast after the output norm.
//
// Backward: R of the gradient, the one rounding of what the heads' gradients add up to in FP32.
//
// Errors: wrong dtype, shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x bf16 -> y fp32 of the same shape.
void widening(const Tensor& x, Tensor& y);

// dy fp32 -> dx bf16.
void widening_backward(const Tensor& dy, Tensor& dx);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void widening(const Tensor& x, Tensor& y, Stream stream);
void widening_backward(const Tensor& dy, Tensor& dx, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
