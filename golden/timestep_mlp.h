// temb = W2 silu(W1 e + b1) + b2 (provider: TimestepEmbedding, all FP32). The hidden layer stays FP64.
//   e (U, F); W1 (hidden, F), b1; W2 (out, hidden), b2; result (U, out) FP32. No activation after the second
//   layer.
#pragma once

#include "golden/product.h"

namespace h3::golden {

Tensor timestep_mlp(const Tensor& e, const Tensor& weight_1, const Tensor& bias_1, const Tensor& weight_2,
                    const Tensor& bias_2, Summation summation = Summation::ordered);

// dh = (dy W2) silu'(W1 e + b1), FP64; then the gradients of two linear layers.
struct TimestepMlpGradients {
  Tensor e, weight_1, bias_1, weight_2, bias_2;
};
TimestepMlpGradients timestep_mlp_backward(const Tensor& e, const Tensor& weight_1, const Tensor& bias_1,
                                           const Tensor& weight_2, const Tensor& gradient,
                                           Summation summation = Summation::ordered);

}  // namespace h3::golden
