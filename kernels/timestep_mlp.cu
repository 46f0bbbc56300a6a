// On Hopper: a half warp per output and row; lane p of it holds partial sum p.
#include "kernels/cuda/device.h"
#include "kernels/cuda/silu.cuh"
#include "kernels/timestep_mlp.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kTile = 256, kPartials = 16, kThreads = 256;

template <bool kSilu>
__global__ void __launch_bounds__(kThreads)
    project(const float* x, const float* weight, const float* bias, std::int64_t outputs, int depth, float* y) {
  const int p = threadIdx.x % kPartials;
  const std::int64_t n = std::int64_t(blockIdx.x) * (kThreads / kPartials) + threadIdx.x / kPartials, u = blockIdx.y;
  const bool holds = n < outputs;
  const float *in = x + u * depth, *w = weight + (holds ? n : 0) * depth;
  float total = 0;
  for (int start = 0; start < depth; start += kTile) {
    float partial = 0;
    const int end = min(depth, start + kTile);
    for (int k = start + p; k < end; k += kPartials) partial = __fmaf_rn(in[k], w[k], partial);
    total = start == 0 ? partial : total + partial;
  }
  float sum = 0;
  for (int i = 0; i < kPartials; ++i) {
    const float next = __shfl_sync(0xffffffffu, total, i, kPartials);
    sum = i == 0 ? next : sum + next;
  }
  if (p == 0 && holds) {
    const float result = sum + bias[n];
    y[u * outputs + n] = kSilu ? h3::cuda::silu(result) : result;
  }
}

template <bool kSilu>
void launch(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Stream stream) {
  const std::int64_t outputs = bias.elements();
  const dim3 grid(unsigned((outputs + kThreads / kPartials - 1) / (kThreads / kPartials)), unsigned(x.shape()[0]));
  project<kSilu><<<grid, kThreads, 0, stream>>>(x.data<float>(), weight.data<float>(), bias.data<float>(), outputs,
                                               int(x.cols()), y.data<float>());
  h3::cuda::check_launch("timestep_mlp");
}

}  // namespace

void timestep_mlp(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, Tensor& inner,
                  Tensor& temb, Stream stream) {
  constexpr const char* kRow = "timestep_mlp";
  require(e.shape().size() == 2 && e.shape()[0] < 65536, "{}: e is {}, expected at most 65535 rows", kRow,
          to_string(e.shape()));
  const std::int64_t rows = e.shape()[0], hidden = b1.elements(), outputs = b2.elements();
  h3::cuda::require_tensor(kRow, "e", e, DType::fp32, e.shape());
  h3::cuda::require_tensor(kRow, "w1", w1, DType::fp32, {hidden, e.cols()});
  h3::cuda::require_tensor(kRow, "b1", b1, DType::fp32, {hidden});
  h3::cuda::require_tensor(kRow, "w2", w2, DType::fp32, {outputs, hidden});
  h3::cuda::require_tensor(kRow, "b2", b2, DType::fp32, {outputs});
  h3::cuda::require_tensor(kRow, "inner", inner, DType::fp32, {rows, hidden});
  h3::cuda::require_tensor(kRow, "temb", temb, DType::fp32, {rows, outputs});
  launch<true>(e, w1, b1, inner, stream);
  launch<false>(inner, w2, b2, temb, stream);
}

}  // namespace h3::kernels::cuda
