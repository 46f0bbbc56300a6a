// The modulation table of a block. Node adaln_projection, RFC row adaln_projection_3mod.
//
// Arithmetic: z = R(silu(temb)), silu = x / (1 + expf(-x)) in FP32 on the FP32 temb, one rounding to BF16;
// table = R(chain(z, W) + bias) (kernels/linear.h). Output o of the projection is tag * 6H + part * H + c, so
// that the (U, 3 * 6H) product read as (3U, 6H) has row 3u + tag and the parts of kernels/table_part.h.
//
// Backward: dweight = R(chain over the U rows) and dz = R(chain over the outputs), the gradients of
// kernels/linear.h; dbias = R(row sum) (kernels/numerics/row_sum.h); dtemb = (dz * s) * fma(temb, 1 - s, 1)
// in FP32 with s = 1 / (1 + expf(-temb)), not rounded to BF16.
//
// Errors: temb not fp32, weights not bf16, shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// temb (U,TE) fp32 -> z (U,TE) bf16: the input of every modulation projection, this one and the output
// norm's.
void modulation_input(const Tensor& temb, Tensor& z);

// temb (U,TE) fp32, weight (3*6H,TE) bf16, bias (3*6H) bf16 -> table (3U,6H) bf16.
void adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& table);

// temb (U,TE) fp32, dz (U,TE) bf16 -> dtemb (U,TE) fp32.
void modulation_input_backward(const Tensor& temb, const Tensor& dz, Tensor& dtemb);

// Backward of any projection of the modulation input: dy (U,N) bf16, weight (N,TE) bf16.
void modulation_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dy, Tensor& dtemb,
                                    Tensor& dweight, Tensor& dbias);

// dtable in the shape of the table, bf16 -> dtemb (U,TE) fp32, dweight and dbias as weight and bias.
void adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& dtemb,
                               Tensor& dweight, Tensor& dbias);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. z and
// dz (U,TE) bf16 are workspace, and `workspace` as for linear_bias_gradient of U rows.
void modulation_input(const Tensor& temb, Tensor& z, Stream stream);
void adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& z, Tensor& table,
                      Stream stream);
void modulation_input_backward(const Tensor& temb, const Tensor& dz, Tensor& dtemb, Stream stream);
void modulation_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dy, Tensor& z,
                                    Tensor& dz, Tensor& dtemb, Tensor& dweight, Tensor& dbias,
                                    Tensor& workspace, Stream stream);
void adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& z,
                               Tensor& dz, Tensor& dtemb, Tensor& dweight, Tensor& dbias, Tensor& workspace,
                               Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
