// silu as PyTorch computes it on the GPU: x / (1 + expf(-x)) in FP32, each operation rounded.
#pragma once

namespace h3::cuda {

__device__ inline float silu(float x) { return __fdiv_rn(x, 1.0f + expf(-x)); }

}  // namespace h3::cuda
