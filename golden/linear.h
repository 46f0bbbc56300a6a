// Nodes q_proj, k_proj, v_proj, o_proj, ffn_gate_up, ffn_down and context_embedder: y = x W^T (+ b).
//   x (S, K) or any rows of it, W (N, K) and b (N) BF16, y (S, N) FP32: rows are independent of each other.
#pragma once

#include "golden/product.h"

namespace h3::golden {

// bias: null where the layer has none.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias,
              Summation summation = Summation::ordered);

// An FP32 sum over K and one rounding to BF16. Rigorous for any order, hence wide where the terms cancel.
Tensor linear_bound(const Tensor& x, const Tensor& weight, const Tensor* bias,
                    Summation summation = Summation::ordered);

// dx = dy W, dW = dy^T x, db = sum over the rows of dy. A layer without a bias has no use for the last.
struct LinearGradients {
  Tensor x, weight, bias;
};
LinearGradients linear_backward(const Tensor& x, const Tensor& weight, const Tensor& gradient,
                                Summation summation = Summation::ordered);

}  // namespace h3::golden
