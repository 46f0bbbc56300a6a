// The vendor's products on a GPU, for comparison; nothing else in the suite uses them. The libraries are
// loaded when asked for, so that a program without them starts and does everything else. Only in builds with
// a CUDA toolkit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3 {

class VendorBlas {
 public:
  virtual ~VendorBlas() = default;
  virtual std::string version() const = 0;  // "cuBLAS 13.1.0"

  // y (S,N) = x (S,K) weight (N,K)^T, all BF16 on the GPU, FP32 sums. Each call launches the product once.
  struct Product {
    std::string name;
    std::function<void(Stream stream)> launch;
  };
  // cublasGemmEx with its default algorithm, and the first plan that cuBLASLt proposes when no plan may split
  // K; absent when it has none.
  virtual std::vector<Product> products(const Tensor& x, const Tensor& weight, Tensor& y) = 0;
};

// Null, and why in one line, where the build found no cuBLAS or the machine has none.
std::unique_ptr<VendorBlas> load_vendor_blas(std::string& why_not);

}  // namespace h3
