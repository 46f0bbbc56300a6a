// The norms and rotations of q and k in one launch: four nodes (q_norm, k_norm, rope_q, rope_k) that read q
// and k once and write what attention reads.
//
// Arithmetic: kernels/qk_norm.h, then kernels/mm_rope.h; the bytes of the two rows one after the other. The
// normed heads are written too where the caller passes tensors for them.
//
// Errors: as qk_norm and mm_rope; on the GPU heads of other than 128 channels, and rotated channels that are
// not a multiple of 16.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// One of q and k.
struct NormRope {
  Tensor x;                  // (S, heads, d) bf16
  Tensor weight;             // (d) bf16
  Tensor rotated;            // (S, heads, d) bf16: written
  Tensor normed = Tensor();  // the same, or empty: not kept
};

// cos and sin (S, 2 * half) fp32.
void qk_norm_rope(NormRope q, NormRope k, float eps, const Tensor& cos, const Tensor& sin);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void qk_norm_rope(NormRope q, NormRope k, float eps, const Tensor& cos, const Tensor& sin, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
