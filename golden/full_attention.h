// Node attention: o = softmax(q k^T / sqrt(d)) v, per head, no mask (provider: dispatch_attention_fn, not
// causal).
//   q (Sq, heads, d): all packed rows or any rows of them; k, v (S, heads, d); result (Sq, heads * d) FP32.
//   The largest logit is subtracted; every sum is FP64 in ascending key (or channel) order: one result
//   everywhere. With Summation::gpu it is a GPU's library that sums, in its own order.
#pragma once

#include "golden/product.h"

namespace h3::golden {

Tensor full_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                      Summation summation = Summation::ordered);

// Logits as FP32 sums over d (turned into a relative error of the weights by the exponential, twice: weight
// and total), weights rounded to BF16 before the second product, FP32 sums over the keys, one rounding to
// BF16.
Tensor full_attention_bound(const Tensor& q, const Tensor& k, const Tensor& v);

// With p = softmax(q k^T / sqrt(d)), dp = do v^T and ds = p (dp - sum over the keys of p dp) / sqrt(d):
//   dv = p^T do, dk = ds^T q (queries ascending), dq = ds k (keys ascending); gradient (Sq, heads * d).
// Memory of a thread: a few copies of a head, and kQueryBlock rows of p and ds.
struct AttentionGradients {
  Tensor q, k, v;
};
AttentionGradients full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& gradient, Summation summation = Summation::ordered);

}  // namespace h3::golden
