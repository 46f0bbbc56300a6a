#include <algorithm>

#include "golden/cuda/wide.h"
#include "kernels/cuda/device.h"

namespace h3::golden {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t elements) {
  return unsigned(std::min<std::int64_t>((elements + kThreads - 1) / kThreads, 1 << 20));
}

struct AsBf16 {
  std::uint16_t word;
};
__device__ double wide(AsBf16 x) { return double(__uint_as_float(unsigned(x.word) << 16)); }
__device__ double wide(float x) { return double(x); }

template <class T>
__global__ void __launch_bounds__(kThreads) widen_all(const T* x, double* to, std::int64_t elements) {
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += std::int64_t(gridDim.x) * kThreads)
    to[i] = wide(x[i]);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    narrow_all(const double* y, const double* bias, T* to, std::int64_t elements, std::int64_t cols) {
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += std::int64_t(gridDim.x) * kThreads)
    to[i] = T(bias ? y[i] + bias[i % cols] : y[i]);
}

}  // namespace

double* WideMemory::of(std::int64_t elements) {
  if (held_.empty() || held_.elements() < elements) {
    held_ = Tensor();  // before the larger one is asked for
    held_ = cuda::allocate(DType::fp64, {elements});
  }
  return held_.data<double>();
}

void widen(const Tensor& x, double* to) {
  const Tensor here = x.device() == Device::cuda ? x : cuda::upload(x);
  const std::int64_t elements = here.elements();
  switch (here.dtype()) {
    case DType::bf16:
      widen_all<<<blocks_for(elements), kThreads>>>(reinterpret_cast<const AsBf16*>(here.bytes()), to,
                                                    elements);
      break;
    case DType::fp32:
      widen_all<<<blocks_for(elements), kThreads>>>(here.data<float>(), to, elements);
      break;
    case DType::fp64:
      cuda::check(cudaMemcpyAsync(to, here.bytes(), here.size_bytes(), cudaMemcpyDeviceToDevice),
                  "golden: copying");
      break;
    default:
      fail("golden on a GPU: an operand is {}, expected fp32, bf16 or fp64", name_of(here.dtype()));
  }
  cuda::check_launch("golden: widen");
}

Tensor narrowed(const double* y, const double* bias, DType dtype, const Shape& shape) {
  Tensor result = cuda::allocate(dtype, shape);
  const std::int64_t elements = result.elements();
  if (dtype == DType::fp32)
    narrow_all<<<blocks_for(elements), kThreads>>>(y, bias, result.data<float>(), elements, result.cols());
  else
    narrow_all<<<blocks_for(elements), kThreads>>>(y, bias, result.data<double>(), elements, result.cols());
  cuda::check_launch("golden: narrow");
  return result;
}

}  // namespace h3::golden
