// Node swiglu: h = value silu(gate). x (S, 2F): the first F columns are the value, the last F the gate. h (S,
// F) FP32.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

Tensor swiglu(const Tensor& x);

// Roundings of silu and of the product; FP32 inside silu; gates so negative that FP32 flushes silu to zero.
Tensor swiglu_bound(const Tensor& x);

// (S, 2F): dvalue = dh silu(gate), dgate = dh value silu'(gate).
Tensor swiglu_backward(const Tensor& x, const Tensor& gradient);

}  // namespace h3::golden
