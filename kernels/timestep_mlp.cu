// On Hopper: a half warp per output and row; lane p of it holds partial sum p.
#include "kernels/cuda/device.h"
#include "kernels/cuda/silu.cuh"
#include "kernels/fp32_projection.h"
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

__global__ void activate(const float* h, std::int64_t count, float* inner) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) inner[i] = h3::cuda::silu(h[i]);
}

__global__ void differentiate(const float* h, std::int64_t count, float* dinner) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) dinner[i] = h3::cuda::silu_gradient(dinner[i], h[i]);
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

void timestep_mlp_backward(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& dtemb,
                           Tensor& h, Tensor& inner, Tensor& dinner, Tensor& dw1, Tensor& db1, Tensor& dw2, Tensor& db2,
                           Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "timestep_mlp_backward";
  require(e.shape().size() == 2 && e.shape()[0] < 65536, "{}: e is {}, expected at most 65535 rows", kRow,
          to_string(e.shape()));
  const std::int64_t rows = e.shape()[0], hidden = b1.elements(), outputs = w2.rows();
  h3::cuda::require_tensor(kRow, "e", e, DType::fp32, e.shape());
  h3::cuda::require_tensor(kRow, "w1", w1, DType::fp32, {hidden, e.cols()});
  h3::cuda::require_tensor(kRow, "b1", b1, DType::fp32, {hidden});
  h3::cuda::require_tensor(kRow, "w2", w2, DType::fp32, {outputs, hidden});
  h3::cuda::require_tensor(kRow, "dtemb", dtemb, DType::fp32, {rows, outputs});
  for (const Tensor* memory : {&h, &inner, &dinner})
    h3::cuda::require_tensor(kRow, "h, inner or dinner", *memory, DType::fp32, {rows, hidden});
  h3::cuda::require_tensor(kRow, "dw1", dw1, DType::fp32, w1.shape());
  h3::cuda::require_tensor(kRow, "db1", db1, DType::fp32, {hidden});
  h3::cuda::require_tensor(kRow, "dw2", dw2, DType::fp32, w2.shape());
  h3::cuda::require_tensor(kRow, "db2", db2, DType::fp32, {outputs});
  const std::int64_t count = rows * hidden;
  const unsigned blocks = unsigned((count + kThreads - 1) / kThreads);
  launch<false>(e, w1, b1, h, stream);
  activate<<<blocks, kThreads, 0, stream>>>(h.data<float>(), count, inner.data<float>());
  h3::cuda::check_launch(kRow);
  fp32_weight_gradient(dtemb, inner, dw2, stream);
  fp32_bias_gradient(dtemb, db2, workspace, stream);
  fp32_input_gradient(dtemb, w2, dinner, stream);
  differentiate<<<blocks, kThreads, 0, stream>>>(h.data<float>(), count, dinner.data<float>());
  h3::cuda::check_launch(kRow);
  fp32_weight_gradient(dinner, e, dw1, stream);
  fp32_bias_gradient(dinner, db1, workspace, stream);
}

}  // namespace h3::kernels::cuda
