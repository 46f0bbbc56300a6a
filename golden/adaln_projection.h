// Node adaln_projection: the modulation table of a block (provider: MiniMaxH3AdaLayerNormModulation).
//   table = W silu(temb) + b, silu(temb) kept in FP64; temb (U, TE) FP32, W (3 * 6H, TE), b (3 * 6H).
//   Result (3U, 6H): row 3u + tag, parts shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp of H
//   each; tag is the outer split of the outputs, so this is the product itself, read as 3U rows.
#pragma once

#include "golden/linear.h"

namespace h3::golden {

// silu(temb), FP64: the input of every modulation projection.
Tensor silu_of(const Tensor& temb);

Tensor adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias,
                        Summation summation = Summation::ordered);

// The rounding of silu(temb) to BF16 on every term, an FP32 sum over TE, one rounding to BF16.
Tensor adaln_projection_bound(const Tensor& temb, const Tensor& weight, const Tensor& bias,
                              Summation summation = Summation::ordered);

// z = silu(temb): dW = dtable^T z, db = sum over the timesteps, dtemb = (dtable W) silu'(temb). The table's
// gradient is read as it was written, as U rows of 3 * 6H; `x` of the result is that of temb.
LinearGradients adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& gradient,
                                          Summation summation = Summation::ordered);

}  // namespace h3::golden
