// y = x W^T (+ b): the FP64 sum of products behind every projection.
//   x (M, K) FP32, BF16 or FP64; weight (N, K) BF16 or FP32; bias (N) or none; products of widened operands,
//   FP64 sums.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

enum class Summation {
  ordered,  // one multiplication and one addition at a time, k ascending, then the bias: one result
            // everywhere
  blas,     // OpenBLAS in its own order: the second opinion; without a BLAS the same as `ordered`
};

// `out` is fp32 (rounded once at the end) or fp64. Scratch stays below 300 MB whatever M, N and K.
Tensor product(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation,
               DType out = DType::fp32);

}  // namespace h3::golden
