// The output norm: RMS norm of all packed rows, modulated per timestep (the tag plays no role). Boundary
// norm_out, RFC row final_adaln_out.
//
// Arithmetic: z = R(silu(temb)) as adaln_projection; table = R(chain(z, W) + bias), (U, 2C) with the shift in
// the first half and the scale in the second; then modulated_rms_norm of kernels/rms_norm.h with the table
// row of the row's timestep. Backward as those rows.
//
// Errors: as those rows.
#pragma once

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// temb (U,TE) fp32, weight (2C,TE) bf16, bias (2C) bf16 -> table (U,2C) bf16.
void final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& table);

// x (S,C) bf16, norm_weight (C) bf16, table (U,2C) bf16, timestep_indices (S) i64 -> y (S,C) bf16.
void final_adaln_out(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                     const Tensor& timestep_indices, Tensor& y);

// dtable (U,2C) bf16 -> dtemb (U,TE) fp32, dweight and dbias as weight and bias.
void final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& dtemb,
                                Tensor& dweight, Tensor& dbias);

// dy (S,C) bf16 -> dx (S,C), dnorm_weight (C), dtable (U,2C), all bf16.
void final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                              const Tensor& timestep_indices, const Tensor& dy, Tensor& dx,
                              Tensor& dnorm_weight, Tensor& dtable);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. z and
// dz (U,TE) bf16 are workspace; `workspace` is fp32, of linear_bias_workspace(U, 2C) and
// modulated_rms_norm_workspace(timestep_indices, C) elements.
void final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& z, Tensor& table,
                       Stream stream);
void final_adaln_out(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                     const h3::cuda::RowIndex& timestep_indices, Tensor& y, Stream stream);
void final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& z,
                                Tensor& dz, Tensor& dtemb, Tensor& dweight, Tensor& dbias, Tensor& workspace,
                                Stream stream);
void final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                              const h3::cuda::RowIndex& timestep_indices, const Tensor& dy, Tensor& dx,
                              Tensor& dnorm_weight, Tensor& dtable, Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
