// The provider's attention: scaled dot product attention, forward, by cuDNN's own fused engine, built as a
// graph the way PyTorch 2.11 builds it (BF16 in and out, FP32 inside, scale 128^-0.5, no mask, no statistics,
// heuristic mode A).
//
// Needs the cudnn_frontend headers at build time and libcudnn at run time. What is missing is said, never
// replaced.
#pragma once

#include <string>

#include "model/tensor.h"

namespace h3::golden::provider {

std::string attention_missing();  // empty, or one line
std::string cudnn_version();      // "91900" of the library that answers; empty without one

// q, k, v (S,heads,128) bf16 on the GPU -> (S,heads,128). Error: attention_missing(), or what cuDNN refused.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace h3::golden::provider
