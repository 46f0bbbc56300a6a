// silu as PyTorch computes it on the GPU: x / (1 + expf(-x)) in FP32, each operation rounded.
#pragma once

namespace h3::cuda {

__device__ inline float silu(float x) { return __fdiv_rn(x, 1.0f + expf(-x)); }

// Its derivative times dy: (dy * s) * fma(x, 1 - s, 1), s = 1 / (1 + expf(-x)).
__device__ inline float silu_gradient(float dy, float x) {
  const float s = __frcp_rn(1.0f + expf(-x));
  return (dy * s) * __fmaf_rn(x, 1.0f - s, 1.0f);
}

}  // namespace h3::cuda
