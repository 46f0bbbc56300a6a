// Node attention: o = softmax(q k^T / sqrt(d)) v, per head, no mask (provider: dispatch_attention_fn, not
// causal).
//   q (Sq, heads, d): all packed rows or any rows of them; k, v (S, heads, d); result (Sq, heads * d) FP32.
//   The largest logit is subtracted; every sum is FP64 in ascending key (or channel) order: one result
//   everywhere.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

Tensor full_attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace h3::golden
