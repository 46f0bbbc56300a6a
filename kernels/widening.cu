#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/widening.h"

namespace h3::kernels::cuda {
namespace {

template <class From, class To>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    convert_rows(const From* from, std::int64_t cols, To* to) {
  const std::int64_t base = std::int64_t(blockIdx.x) * cols;
  for (std::int64_t c = threadIdx.x; c < cols; c += h3::cuda::kRowThreads)
    to[base + c] = h3::cuda::narrow<To>(h3::cuda::widen(from[base + c]));
}

}  // namespace

void widening(const Tensor& x, Tensor& y, Stream stream) {
  constexpr const char* kRow = "widening";
  h3::cuda::require_tensor(kRow, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "y", y, DType::fp32, x.shape());
  convert_rows<<<h3::cuda::row_grid(kRow, x.rows()), h3::cuda::kRowThreads, 0, stream>>>(
      reinterpret_cast<const __nv_bfloat16*>(x.bytes()), x.cols(), y.data<float>());
  h3::cuda::check_launch(kRow);
}

void widening_backward(const Tensor& dy, Tensor& dx, Stream stream) {
  constexpr const char* kRow = "widening_backward";
  h3::cuda::require_tensor(kRow, "dy", dy, DType::fp32, dy.shape());
  h3::cuda::require_tensor(kRow, "dx", dx, DType::bf16, dy.shape());
  convert_rows<<<h3::cuda::row_grid(kRow, dy.rows()), h3::cuda::kRowThreads, 0, stream>>>(
      dy.data<float>(), dy.cols(), reinterpret_cast<__nv_bfloat16*>(dx.bytes()));
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
