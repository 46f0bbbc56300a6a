#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/synthetic.h"
#include "kernels/cuda/vector.cuh"

namespace h3::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) fill(SyntheticRule rule, std::int64_t elements, T* out) {
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements; i += step)
    out[i] = narrow<T>(rule.at(i));
}

}  // namespace

void fill_synthetic(const SyntheticRule& rule, Tensor& tensor, Stream stream) {
  constexpr const char* kWhat = "fill_synthetic";
  require(tensor.dtype() == DType::bf16 || tensor.dtype() == DType::fp32,
          "{}: tensor is {}, expected bf16 or fp32", kWhat, name_of(tensor.dtype()));
  require_tensor(kWhat, "tensor", tensor, tensor.dtype(), tensor.shape());
  const std::int64_t elements = tensor.elements(), blocks = (elements + kThreads - 1) / kThreads;
  const unsigned grid = unsigned(std::min<std::int64_t>(blocks, std::int64_t(multiprocessors()) * 32));
  if (tensor.dtype() == DType::bf16)
    fill<<<grid, kThreads, 0, stream>>>(rule, elements, reinterpret_cast<__nv_bfloat16*>(tensor.bytes()));
  else
    fill<<<grid, kThreads, 0, stream>>>(rule, elements, tensor.data<float>());
  check_launch(kWhat);
}

}  // namespace h3::cuda
