// Gradients of a product with few rows of dY, as adaln_projection has them, one row for each timestep. The
// arithmetic and the bytes are those of kernels/linear.h; only the way through the memory is another, because
// the weight or its gradient (half a gigabyte) is all that such a product moves.
//
// linear_input_gradient and linear_weight_gradient have checked the operands and call these.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels::cuda {

// dy (S,N) bf16 with S <= 8, weight (N,K) bf16 -> dx (S,K), bf16 or fp32.
inline constexpr int kFewRowsOfDx = 8;
void few_rows_dx(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream);

// dy (S,N) bf16 with S <= 16, x (S,K) bf16 -> dweight (N,K), bf16 or fp32.
inline constexpr int kFewRowsOfDw = 16;
void few_rows_dw(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream);

}  // namespace h3::kernels::cuda
