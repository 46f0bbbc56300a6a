// h3_full_attention: softmax(q k^T / sqrt(128)) v over all keys, no mask. RFC row h3_full_attention.
//
// Arithmetic, per head and query row; FP32 with one rounding per operation, `chain` from
// kernels/numerics/chain.h, `ex2` and `rcp` the hardware approximations of
// kernels/numerics/device_functions.h:
//   1. keys in tiles of 128, ascending; the last tile is filled up (score -inf, value 0);
//   2. t = chain(q, k) * c with c = f32(128^-0.5 * log2 e);
//   3. m' = max(m, max of the tile's t); p = ex2(t - m'); a = ex2(m - m'), which is 0 for the first tile;
//   4. acc = acc * a, then the chain of R(p) and v continued from acc, keys ascending;
//   5. row sum in four parts: part i owns the tile's columns 8j + 2i + {0, 1}, j = 0..15, added one after the
//   other
//      (j, then the pair) starting from the first; then l[i] = fma(l[i], a, that sum). The FP32 p are summed,
//      not R(p);
//   6. L = (l[0] + l[1]) + (l[2] + l[3]); o = R(acc * rcp(L)).
//   7. lse = fma(m, ln 2, lg2(L) * ln 2), what the backward starts from; lg2 the hardware approximation.
// A query row depends on its own q and on all keys in their order, not on the other queries. These are the
// bits of cuDNN 9.19's forward on Hopper, its log-sum-exp included.
//
// Errors: one line for a wrong dtype, a shape that does not fit, or an empty operand.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// q (R,heads,128), k and v (S,heads,128) bf16 -> o (R,heads*128) bf16 and, where asked for, lse (heads,R)
// fp32.
void full_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& o, Tensor* lse = nullptr);

// On a Hopper GPU: the same bytes. One FP32 accumulator for every element of the output, in the matrix
// instruction's own registers from the first tile to the last; it is rescaled between tiles, never while a
// product is in flight; the keys are never split among blocks and nothing is atomic. The four parts of a row
// sum are the four threads of a quad, as the instruction lays the scores out. R(p) stays in registers; the
// output is rounded once and written once.
//
// Operands lie on the GPU, heads of 128 only, any other extent below 2^31 - 128. The call returns before the
// work is done.
namespace cuda {

void full_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& o, Tensor* lse = nullptr,
                    Stream stream = nullptr);

}  // namespace cuda

}  // namespace h3::kernels
