// What stands for golden/cuda in a build without nvcc or without cuBLAS's headers.
#if !H3_GOLDEN_ON_GPU
#include "golden/cuda/attention.h"
#include "golden/cuda/product.h"

namespace h3::golden {
namespace {

constexpr const char* kWhy = "golden: this build has no sums on a GPU: they need nvcc and cublas_v2.h";

}  // namespace

Tensor product_on_gpu(const DeviceOperand&, const DeviceOperand&, const Tensor*, DType, const Shape&) {
  fail("{}", kWhy);
}
Tensor attention_on_gpu(const Tensor&, const Tensor&, const Tensor&, DType) { fail("{}", kWhy); }
AttentionGradients attention_backward_on_gpu(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                             DType) {
  fail("{}", kWhy);
}

}  // namespace h3::golden
#endif
