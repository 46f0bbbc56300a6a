// FP32 projections: video and audio in (K = 96, 32) and the two output heads over all packed rows (K = 5376).
// RFC rows video_input_projection_fp32, audio_input_projection_fp32 and the output heads.
//
// Arithmetic: one chain of FMAs over K ascending from 0, then the bias added. No TF32. Every row the same
// way, whatever the number of rows; the provider's cuBLAS does the same for the inputs, and for the heads at
// tens of thousands of rows (at a few thousand it splits K).
//
// Errors: parameters that are not fp32 (a checkpoint cast to BF16 as a whole), shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S,K) fp32, or bf16 widened exactly; weight (N,K), bias (N) fp32 -> y (S,N) fp32.
void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
