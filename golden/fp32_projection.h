// Boundaries video_in_proj, audio_in_proj, video_out_proj, audio_out_proj: y = x W^T + b with FP32
// parameters.
//   x (rows, K) FP32, W (N, K), b (N); y (rows, N). The heads run over all packed rows; rows are selected
//   afterwards.
#pragma once

#include "golden/linear.h"

namespace h3::golden {

// BF16 parameters are an error: these four layers are the model's FP32 islands.
Tensor fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       Summation summation = Summation::ordered);

// An FP32 sum over K, nothing else rounded.
Tensor fp32_projection_bound(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             Summation summation = Summation::ordered);

// Those of linear; FP32 parameters, likewise.
LinearGradients fp32_projection_backward(const Tensor& x, const Tensor& weight, const Tensor& gradient,
                                         Summation summation = Summation::ordered);

}  // namespace h3::golden
