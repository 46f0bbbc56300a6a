// Synthetic tensors made where they are used: the rule of model/synthetic_rule.h on the GPU, the bytes of
// model/synthetic.h.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/synthetic_rule.h"
#include "model/tensor.h"

namespace h3::cuda {

// Every element of a bf16 or fp32 tensor on the GPU.
void fill_synthetic(const SyntheticRule& rule, Tensor& tensor, Stream stream);

}  // namespace h3::cuda
