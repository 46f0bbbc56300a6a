// FP32 projections: video and audio in (K = 96, 32) and the two output heads over all packed rows (K = 5376).
// RFC rows video_input_projection_fp32, audio_input_projection_fp32 and the output heads.
//
// Arithmetic: one chain of FMAs over K ascending from 0, then the bias added. No TF32. Every row the same
// way, whatever the number of rows; the provider's cuBLAS does the same for the inputs, and for the heads at
// tens of thousands of rows (at a few thousand it splits K).
//
// Gradients: chains of FMAs from 0 over runs of 128 of another extent, the runs' sums added one after the
// other: dx over the N outputs ascending, dweight over the S rows ascending. One chain would be two to three
// times as far from the golden as the provider is. dbias is the row sum of kernels/numerics/row_sum.h. No
// rounding.
//
// Errors: parameters that are not fp32 (a checkpoint cast to BF16 as a whole), shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

inline constexpr std::int64_t kFp32Run = 128;  // steps of a gradient's chain

// x (S,K) fp32, or bf16 widened exactly; weight (N,K), bias (N) fp32 -> y (S,N) fp32.
void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y);

// dy (S,N) fp32, weight (N,K) fp32 -> dx (S,K) fp32.
void fp32_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx);
// dy (S,N) fp32, x (S,K) fp32 or bf16 -> dweight (N,K) fp32.
void fp32_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight);
// dy (S,N) fp32 -> dbias (N) fp32.
void fp32_bias_gradient(const Tensor& dy, Tensor& dbias);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
// `workspace` is fp32 with at least linear_bias_workspace(S, N) elements (kernels/linear.h).
void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Stream stream);
void fp32_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream);
void fp32_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream);
void fp32_bias_gradient(const Tensor& dy, Tensor& dbias, Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
