// Gradients of h3_full_attention (kernels/full_attention.h): dq, dk, dv from the output's gradient, the
// forward's operands, its output and its log-sum-exp. RFC row h3_full_attention.
//
// Arithmetic, per head; FP32 with one rounding per operation, `chain` from kernels/numerics/chain.h, `ex2`
// the hardware approximation of kernels/numerics/device_functions.h; c = f32(128^-0.5), e = f32(log2 e):
//   1. delta of a query row = sum of do * o over its 128 channels: sixteen parts of eight channels each, in a
//      part the sums of neighbouring pairs are added one after the other; then the parts by a halving tree
//      (8, 4, 2, 1);
//   2. s = chain(q, k), P = ex2(fma(s, c, -lse) * e);
//   3. dP = chain(do, v), dS = (P * (dP - delta)) * c;
//   4. dv = R(chain(R(P), do)) and dk = R(chain(R(dS), q)), query rows ascending; dq = R(chain(R(dS), k)),
//   keys
//      ascending, every chain in one piece.
// dq of a query row depends on that row and on all keys. dv and dk are sums over query rows in the order
// given.
//
// These are the bits of cuDNN 9.19's backward on Hopper for dk and dv, and for dq up to 128 keys; beyond,
// cuDNN adds dq up with atomics and does not repeat.
//
// Errors: one line for a wrong dtype, a shape that does not fit, or an empty operand.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// q (R,heads,128), k and v (S,heads,128), o and dout (R,heads*128) bf16, lse (heads,R) fp32
// -> dq (R,heads,128), dk and dv (S,heads,128) bf16.
void full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                             const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv);

// On a Hopper GPU: the same bytes. One launch holds keys and walks the query rows (dk, dv), one holds query
// rows and walks the keys (dq): P is made twice, and no sum leaves the registers of the matrix instruction
// before it is whole. Nothing is atomic.
//
// Operands lie on the GPU, heads of 128 only, any other extent below 2^31 - 128. The call returns before the
// work is done.
namespace cuda {

// Elements of the fp32 workspace for `rows` query rows: lse and delta, rounded up to whole tiles.
std::int64_t full_attention_backward_workspace(std::int64_t rows, std::int64_t heads);

void full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                             const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv,
                             Tensor& workspace, Stream stream = nullptr);

}  // namespace cuda

}  // namespace h3::kernels
