#include <algorithm>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/ode_step.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kThreads = 128;  // latent rows are narrow: 96 and 32 columns

// per_row null: `all` for every row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    step_rows(const T* x, const T* velocity, const StepFactors all, const StepFactors* per_row,
              std::int64_t cols, T* next) {
  const std::int64_t base = std::int64_t(blockIdx.x) * cols;
  const StepFactors f = per_row ? per_row[blockIdx.x] : all;
  for (std::int64_t c = threadIdx.x; c < cols; c += kThreads) {
    const float sample = h3::cuda::widen(x[base + c]);
    const float clean = sample + f.s * h3::cuda::widen(velocity[base + c]);
    next[base + c] = h3::cuda::narrow<T>(f.r * sample + f.rest * clean);
  }
}

}  // namespace

void ode_step(const Tensor& x, const Tensor& velocity, const Tensor& timestep, const Tensor& sigma,
              const Tensor& sigma_next, Tensor& next, Stream stream) {
  constexpr const char* kRow = "ode_step";
  require(!x.shape().empty() &&
              (x.dtype() == DType::fp32 || x.dtype() == DType::bf16 || x.dtype() == DType::fp16),
          "{}: x is {} {}, expected rows of fp32, bf16 or fp16", kRow, name_of(x.dtype()),
          to_string(x.shape()));
  h3::cuda::require_tensor(kRow, "x", x, x.dtype(), x.shape());
  h3::cuda::require_tensor(kRow, "velocity", velocity, x.dtype(), x.shape());
  h3::cuda::require_tensor(kRow, "next", next, x.dtype(), x.shape());
  const unsigned grid = h3::cuda::row_grid(kRow, x.rows());
  const std::vector<StepFactors> factors = step_factors(timestep, sigma, sigma_next, x.rows());
  Tensor per_row;
  if (factors.size() > 1) {
    static_assert(sizeof(StepFactors) == 3 * sizeof(float));
    Tensor host(DType::fp32, {x.rows(), 3});
    std::copy_n(&factors.front().s, host.elements(), host.data<float>());
    per_row = h3::cuda::upload(host);
  }
  const auto run = [&]<class T>(T) {
    const auto words = [](const Tensor& t) { return reinterpret_cast<const T*>(t.bytes()); };
    step_rows<T><<<grid, kThreads, 0, stream>>>(words(x), words(velocity), factors.front(),
                                                reinterpret_cast<const StepFactors*>(per_row.bytes()),
                                                x.cols(), reinterpret_cast<T*>(next.bytes()));
  };
  if (x.dtype() == DType::fp32) run(float{});
  if (x.dtype() == DType::bf16) run(__nv_bfloat16{});
  if (x.dtype() == DType::fp16) run(__half{});
  h3::cuda::check_launch(kRow);
  if (!per_row.empty()) h3::cuda::synchronize(stream);  // the uploaded factors end with this call
}

}  // namespace h3::kernels::cuda
