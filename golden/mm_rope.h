// Nodes rope_q, rope_k: rotation of the leading channels of every head (provider: _apply_rotary_emb).
//   half = table columns / 2 (48): y[i] = x[i] cos[i] - x[i + half] sin[i],
//   y[i + half] = x[i + half] cos[i + half] + x[i] sin[i + half]; channels from 2 half (96) on pass through.
//   x (S, heads, d), cos and sin (S, 2 half) FP32 and used as they are: rounding them to BF16 is the
//   provider's error.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

Tensor mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin);

// Roundings of the table entry and of the product on each of the two products, and of their sum; 0 where
// channels pass.
Tensor mm_rope_bound(const Tensor& x, const Tensor& cos, const Tensor& sin);

// The transposed rotation: dx[i] = dy[i] cos[i] + dy[i + half] sin[i + half],
// dx[i + half] = dy[i + half] cos[i + half] - dy[i] sin[i].
Tensor mm_rope_backward(const Tensor& gradient, const Tensor& cos, const Tensor& sin);

}  // namespace h3::golden
