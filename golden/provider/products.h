// The provider's products: F.linear on BF16 through cuBLAS, called as PyTorch 2.11 calls it.
//
// Without a bias: cublasGemmEx, FP32 compute type, default algorithm, default math mode (which allows
// reductions in reduced precision when the library splits K), 32 MiB of workspace, column-major y^T = W x^T.
// With a bias: cublasLtMatmul with the bias in its epilogue, the first algorithm of the heuristic. Variant
// `cublaslt` sends the products without a bias through cublasLtMatmul, too, as PyTorch does when that is its
// preferred library.
//
// Which order the library sums in is its own choice; kernels/linear.h states the one it has on Hopper nearly
// always.
#pragma once

#include <memory>
#include <string>

#include "model/tensor.h"

namespace h3::golden::provider {

enum class Variant { standard, cublaslt };
Variant variant_named(const std::string& name);  // "default" or "cublaslt"

class Products {
 public:
  explicit Products(Variant variant);  // Error: a library is missing
  ~Products();

  // x (S,K) bf16, weight (N,K) bf16, bias (N) bf16 or null, on the GPU -> (S,N) bf16, rounded once.
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias) const;

  std::string cublas_version() const;  // "13.1.0", of the library that answers
  std::string cublaslt_version() const;

 private:
  struct Libraries;
  std::unique_ptr<Libraries> libraries_;
  Variant variant_;
  Tensor workspace_;
};

}  // namespace h3::golden::provider
