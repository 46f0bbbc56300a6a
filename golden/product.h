// y = x W^T (+ b): the FP64 sum of products behind every projection, and the two that give its gradients.
//   x (M, K) and weight (N, K) FP32, BF16 or FP64; bias (N) or none; products of widened operands, FP64 sums.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

enum class Summation {
  ordered,  // one multiplication and one addition at a time, ascending, then the bias: one result everywhere
  blas,     // OpenBLAS in its own order: the second opinion; without a BLAS, or with less
            // than 16 terms to a sum, the same as `ordered`
  gpu,  // cuBLAS's dgemm in its own order, for weights that a CPU cannot multiply in minutes: they may lie
        // on the GPU, and a weight gradient does. Without a GPU: an Error
};

// `out` is fp32 (rounded once at the end) or fp64. Scratch stays below 300 MB whatever M, N and K.
Tensor product(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation,
               DType out = DType::fp32);

// dx (M, K) = dy W, n ascending: dy (M, N), weight (N, K).
Tensor input_gradient(const Tensor& dy, const Tensor& weight, Summation summation, DType out = DType::fp32);

// dW (N, K) = dy^T x, rows ascending: dy (M, N), x (M, K).
Tensor weight_gradient(const Tensor& dy, const Tensor& x, Summation summation, DType out = DType::fp32);

// db (N) = the sum of the rows of dy (M, N), ascending.
Tensor bias_gradient(const Tensor& dy, DType out = DType::fp32);

}  // namespace h3::golden
