// On Hopper: tiles of 64 rows by 64 outputs; a thread owns 4 x 4 of them and walks K once, so each is one
// chain.
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/fp32_projection.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kTile = 64, kDepth = 32, kOwn = 4, kThreads = (kTile / kOwn) * (kTile / kOwn);

template <class T>
__global__ void __launch_bounds__(kThreads)
    project(const T* x, const float* weight, const float* bias, std::int64_t rows, std::int64_t outputs,
            std::int64_t depth, float* y) {
  __shared__ alignas(16) float xs[kDepth][kTile + kOwn], ws[kDepth][kTile + kOwn];
  const std::int64_t first_row = std::int64_t(blockIdx.x) * kTile,
                     first_output = std::int64_t(blockIdx.y) * kTile;
  const int down = threadIdx.x / (kTile / kOwn) * kOwn, across = threadIdx.x % (kTile / kOwn) * kOwn;
  float sum[kOwn][kOwn] = {};
  for (std::int64_t start = 0; start < depth; start += kDepth) {
    // No step beyond K, not even with zeros: adding +0 would turn a -0 into +0.
    const int steps = int(depth - start < kDepth ? depth - start : kDepth);
    const int k = threadIdx.x % kDepth;
    for (int i = threadIdx.x / kDepth; i < kTile; i += kThreads / kDepth) {
      const std::int64_t row = first_row + i, output = first_output + i;
      xs[k][i] = k < steps && row < rows ? h3::cuda::widen(x[row * depth + start + k]) : 0;
      ws[k][i] = k < steps && output < outputs ? weight[output * depth + start + k] : 0;
    }
    __syncthreads();
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
      const float4 a = *reinterpret_cast<const float4*>(&xs[step][down]);
      const float4 b = *reinterpret_cast<const float4*>(&ws[step][across]);
      const float in[kOwn] = {a.x, a.y, a.z, a.w}, w[kOwn] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] = __fmaf_rn(in[i], w[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t row = first_row + down + i, output = first_output + across + j;
      if (row < rows && output < outputs) y[row * outputs + output] = sum[i][j] + bias[output];
    }
}

}  // namespace

void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Stream stream) {
  constexpr const char* kRow = "fp32_projection";
  require(x.shape().size() == 2 && weight.shape().size() == 2,
          "{}: x is {} and weight {}, expected 2 extents each", kRow, to_string(x.shape()),
          to_string(weight.shape()));
  require(x.dtype() == DType::fp32 || x.dtype() == DType::bf16, "{}: x is {}, expected fp32 or bf16", kRow,
          name_of(x.dtype()));
  const std::int64_t rows = x.shape()[0], depth = x.cols(), outputs = weight.shape()[0];
  h3::cuda::require_tensor(kRow, "x", x, x.dtype(), {rows, depth});
  h3::cuda::require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  h3::cuda::require_tensor(kRow, "bias", bias, DType::fp32, {outputs});
  h3::cuda::require_tensor(kRow, "y", y, DType::fp32, {rows, outputs});
  require(outputs <= 65535 * kTile, "{}: {} outputs, too many for one launch", kRow, outputs);
  const dim3 grid(unsigned((rows + kTile - 1) / kTile), unsigned((outputs + kTile - 1) / kTile));
  const auto run = [&](const auto* words) {
    project<<<grid, kThreads, 0, stream>>>(words, weight.data<float>(), bias.data<float>(), rows, outputs,
                                           depth, y.data<float>());
  };
  if (x.dtype() == DType::fp32)
    run(x.data<float>());
  else
    run(reinterpret_cast<const __nv_bfloat16*>(x.bytes()));
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
