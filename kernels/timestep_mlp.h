// temb = linear_2(silu(linear_1(e))), FP32 throughout. RFC row timestep_mlp_fp32, the provider's
// TimestepEmbedding.
//
// Arithmetic of both linears: K in tiles of 256. In a tile 16 partial sums; partial p takes k = p, p + 16,
// ... by FMA, starting from 0. The tiles are added per partial in order, then the 16 partials in order, then
// the bias. silu is x / (1 + expf(-x)), each operation rounded. The order is the same for every number of
// rows, so a row of temb depends on its row of e alone; it is the provider's own (cuBLAS, 2 to 4 rows; with
// one row linear_2 of the provider sums in another order).
//
// Backward, to the parameters (e has none): the gradients of kernels/fp32_projection.h of both linears;
// between them silu's, (ds * s) * fma(h, 1 - s, 1) with h the first linear's output and s = 1 / (1 +
// expf(-h)). No rounding.
//
// Errors: anything but fp32 (BF16 timestep embeddings are a known mistake), shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// e (U,F), w1 (hidden,F), b1 (hidden), w2 (out,hidden), b2 (out) -> temb (U,out), all fp32.
void timestep_mlp(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
                  Tensor& temb);

// dtemb (U,out) -> the gradients of the four parameters, each in the parameter's shape, all fp32.
void timestep_mlp_backward(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                           const Tensor& dtemb, Tensor& dw1, Tensor& db1, Tensor& dw2, Tensor& db2);

// One of its linears: x (U,K), weight (N,K), bias (N) -> y (U,N), all fp32.
void timestep_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. inner
// (U,hidden) fp32 is workspace.
void timestep_mlp(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
                  Tensor& inner, Tensor& temb, Stream stream);

// h, inner and dinner (U,hidden) fp32 are workspace, and `workspace` as for fp32_bias_gradient of either
// linear.
void timestep_mlp_backward(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                           const Tensor& dtemb, Tensor& h, Tensor& inner, Tensor& dinner, Tensor& dw1,
                           Tensor& db1, Tensor& dw2, Tensor& db2, Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
