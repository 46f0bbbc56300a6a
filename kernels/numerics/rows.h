// Rows of any float type as FP32 words: the elementwise rows compute on these, and round where their
// arithmetic says so.
#pragma once

#include "model/tensor.h"

namespace h3::numerics {

// out[i] = element first + i of the tensor, exactly widened. bf16, fp16 or fp32.
void widen(const Tensor& tensor, std::int64_t first, std::int64_t count, float* out);

// Element first + i of the tensor = in[i], rounded once to the tensor's type, to nearest even.
void narrow(const float* in, std::int64_t first, std::int64_t count, Tensor& tensor);

// The same rounding, kept in FP32.
void round_to(DType dtype, float* values, std::int64_t count);

}  // namespace h3::numerics
