// The provider's nodes, op for op: the sequence of eager operations and library calls that diffusers 0.42.1
// makes on a Hopper GPU under PyTorch 2.11, without Python. Shares no code with the strict rows; what it
// computes is compared with what the real provider recorded.
//
// Tensors lie on the GPU and are BF16 unless said otherwise. Roundings are those of the operations: one each.
#pragma once

#include "golden/provider/products.h"
#include "model/tensor.h"

namespace h3::golden::provider {

// Columns [part * C, (part + 1) * C) of a modulation table (3U, 6C), gathered for every packed row.
struct Gathered {
  Tensor table;
  std::int64_t part = 0;
};

class Provider {
 public:
  explicit Provider(Variant variant) : products_(variant) {}
  const Products& products() const { return products_; }

  // temb (U,K) fp32, weight (N,K), bias (N) -> (3U, N/3), rows 3u + tag.
  Tensor adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias) const;
  // norm(x) * (1 + scale[index]) + shift[index]; index (S) i64
  Tensor modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const Gathered& shift,
                            const Gathered& scale, const Tensor& index) const;
  // The same without the tags, for the output norm: (U,N).
  Tensor modulation_table(const Tensor& temb, const Tensor& weight, const Tensor& bias) const;
  Tensor rms_norm(const Tensor& x, const Tensor& weight,
                  float eps) const;  // of rows, or of heads (S,heads,128)
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias = nullptr) const;
  Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin) const;   // cos, sin (S,96) fp32
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) const;  // (S,heads,128)
  Tensor swiglu(const Tensor& x) const;                                       // (S,2C) -> (S,C)
  Tensor residual(const Tensor& residual, const Tensor& x) const;
  Tensor gate_residual(const Tensor& residual, const Tensor& x, const Gathered& gate,
                       const Tensor& index) const;

 private:
  Products products_;
};

}  // namespace h3::golden::provider
