#include "harness/compare/compare_placed.h"

#include "model/digest.h"

#ifdef H3_HAVE_CUDA
#include "harness/compare/compare_device.h"
#include "kernels/cuda/device.h"
#endif

namespace h3 {

#ifdef H3_HAVE_CUDA
namespace {

Tensor on_gpu(const Tensor& tensor) {
  return tensor.device() == Device::cuda ? tensor : cuda::upload(tensor);
}

}  // namespace

Comparison compare_placed(const Tensor& expected, const Tensor& actual) {
  if (expected.device() == Device::cpu && actual.device() == Device::cpu) return compare(expected, actual);
  return compare_on_gpu(on_gpu(expected), on_gpu(actual));
}

std::string xxh3_128_placed(const Tensor& tensor) {
  return tensor.device() == Device::cuda ? xxh3_128_on_gpu(tensor) : xxh3_128_hex(tensor.byte_span());
}
#else
Comparison compare_placed(const Tensor& expected, const Tensor& actual) { return compare(expected, actual); }
std::string xxh3_128_placed(const Tensor& tensor) { return xxh3_128_hex(tensor.byte_span()); }
#endif

}  // namespace h3
