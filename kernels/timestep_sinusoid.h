// Features of the distinct timesteps. RFC row timestep_sinusoid_h3, the provider's `Timesteps` (cosine first,
// shift 0, scale 1: t is not multiplied by 1000).
//
// Arithmetic, FP32, every operation rounded: g[k] = expf((c * k) * (1/128)), c = f32(-ln 10000) = -9.2103405;
// a[k] = t * g[k]; e[k] = cosf(a[k]), e[128 + k] = sinf(a[k]), k = 0..127; expf, cosf and sinf as the CUDA
// math library computes them (kernels/numerics/device_functions.h). Bitwise the provider's. A bf16 or fp16 t
// is widened first, exactly.
//
// Errors: t outside [0, 1] or NaN (a t scaled by 1000 ends here), wrong dtype or shape.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// t (U) fp32, bf16 or fp16 -> e (U, F) fp32, F even (256 in the released model; 128 above is F/2).
void timestep_sinusoid(const Tensor& t, Tensor& e);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. t stays on the CPU.
void timestep_sinusoid(const Tensor& t, Tensor& e, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
