// A BF16 projection with a LoRA adapter beside it, as PEFT computes it with its adapter in BF16.
//
// Arithmetic, chain of kernels/numerics/chain.h: base = R(chain(x, W) + bias) (kernels/linear.h); h =
// R(chain(x, A)); b = R(chain(h, B)); y = R(base + R(b * scale)), scale = alpha / rank rounded to FP32, FP32
// inside each operation.
//
// Backward, W and bias frozen: g = R(dy * scale); dB = R(chain over the rows of g, h); dh = R(chain over the
// outputs of g, B); dA = R(chain over the rows of dh, x); dx = R(R(chain over the outputs of dy, W) + R(chain
// over the rank of dh, A)). h is computed anew.
//
// Errors: as linear; adapters whose shapes do not fit, a scale that is not finite.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

struct LoraAdapter {
  Tensor a;         // (rank, K) bf16
  Tensor b;         // (N, rank) bf16
  float alpha = 1;  // the branch counts alpha / rank

  float scale() const { return float(double(alpha) / double(a.rows())); }
};

// x (S,K), weight (N,K), bias (N) or null, all bf16 -> y (S,N) bf16.
void lora_linear(const Tensor& x, const Tensor& weight, const Tensor* bias, const LoraAdapter& adapter,
                 Tensor& y);

// dy (S,N) bf16 -> dx (S,K), da and db in the shapes of the adapter's, all bf16.
void lora_linear_backward(const Tensor& x, const Tensor& weight, const LoraAdapter& adapter, const Tensor& dy,
                          Tensor& dx, Tensor& da, Tensor& db);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit; the
// rank a multiple of 8. Workspace, bf16: h and dh (S,rank), branch and g (S,N), dbranch (S,K).
void lora_linear(const Tensor& x, const Tensor& weight, const Tensor* bias, const LoraAdapter& adapter,
                 Tensor& h, Tensor& branch, Tensor& y, Stream stream);
void lora_linear_backward(const Tensor& x, const Tensor& weight, const LoraAdapter& adapter, const Tensor& dy,
                          Tensor& h, Tensor& dh, Tensor& g, Tensor& dbranch, Tensor& dx, Tensor& da,
                          Tensor& db, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
