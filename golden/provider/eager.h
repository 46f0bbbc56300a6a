// Eager operations as PyTorch runs them on the GPU: each its own small kernel, computed in FP32, rounded once
// to the result's dtype; nothing is fused. Tensors lie on the GPU, are contiguous and BF16 unless said
// otherwise. Every call returns a new tensor; launches go to the default stream.
//
// Errors: one line for a wrong dtype or shape.
#pragma once

#include "model/tensor.h"

namespace h3::golden::provider {

Tensor add(const Tensor& a, const Tensor& b);  // one shape
Tensor add(const Tensor& a, float scalar);
Tensor mul(const Tensor& a, const Tensor& b);  // one shape
Tensor neg(const Tensor& a);
Tensor silu(const Tensor& a);     // bf16 or fp32: x / (1 + exp(-x)) in FP32
Tensor to_bf16(const Tensor& a);  // from fp32

// x (..., N), weight (N). PyTorch's fused kernel: 128 threads a row, thread t sums the squares of the
// 4-element vectors t, t + 128, ...; halving trees inside and across the four warps; weight * (rsqrt(mean +
// eps) * x).
Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps);

// Copies: no rounding.
Tensor index_select(const Tensor& table,
                    const Tensor& index);  // index (S) i64, on the GPU, checked by the caller
Tensor columns(const Tensor& x, std::int64_t first, std::int64_t count);  // of the innermost extent
Tensor concatenate(const Tensor& a, const Tensor& b);                     // innermost extents
Tensor repeat_rows(const Tensor& x, std::int64_t times);  // (S,C) -> (S,times,C): a broadcast, written out

}  // namespace h3::golden::provider
