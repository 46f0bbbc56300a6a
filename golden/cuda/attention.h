// The attention of golden/full_attention.h on a GPU: every sum in FP64, in the libraries' own order.
#pragma once

#include "golden/full_attention.h"

namespace h3::golden {

// Operands and results lie on the CPU, shaped as full_attention.h says.
Tensor attention_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, DType out);
AttentionGradients attention_backward_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& gradient, DType out);

}  // namespace h3::golden
