// The special functions of an NVIDIA GPU (Hopper), bit for bit on any CPU.
//
// Four are instructions whose results no manual fixes; they are tables, captured from the GPU over every
// input (fixtures/capture_device_functions.cu -> fixtures/device_functions.h5):
//   ex2.approx.ftz.f32    the input cut to 23 fraction bits; x >= 0 takes P[frac], x < 0 the one's complement
//                         of (whole, frac); without a fraction an exact power of two
//   rcp.approx.ftz.f32    depends on the mantissa, scaled by a power of two
//   rsqrt.approx.ftz.f32  depends on the mantissa and the parity of the exponent
//   lg2.approx.ftz.f32    from 1 up: exponent plus the mantissa's entry, cut to FP32
// All four read subnormals as zero and write subnormals as zero.
//
// The others are software of the CUDA math library (13.0, without fast math) on top of them, every operation
// here as in its PTX, each rounded once: expf, sinf, cosf (with the Payne-Hanek reduction above 105615).
//
// A NaN comes out as the GPU's 0x7fffffff. The tables are read at the first use of a function that needs
// them; a missing or damaged file is an h3::Error.
#pragma once

#include <cstddef>

namespace h3::numerics {

float ex2_approx(float x);
void ex2_approx(const float* x, float* y, std::size_t count);  // the same bits, many at once; y may be x

float rcp_approx(float x);
float rsqrt_approx(float x);
float lg2_approx(float x);  // x >= 1; anything less gives NaN

float cuda_expf(float x);
float cuda_sinf(float x);
float cuda_cosf(float x);

// x / (1 + expf(-x)), every operation rounded to FP32. PyTorch's silu before its rounding to the tensor's
// type.
float silu_fp32(float x);
void silu_fp32(const float* x, float* y, std::size_t count);  // the same bits; y may be x

// dx of y = silu(x) as PyTorch computes it: (dy * s) * fma(x, 1 - s, 1) with s = 1 / (1 + expf(-x)), every
// operation rounded to FP32.
float silu_gradient_fp32(float dy, float x);
void silu_gradient_fp32(const float* dy, const float* x, float* dx, std::size_t count);  // dx may be dy or x

}  // namespace h3::numerics
