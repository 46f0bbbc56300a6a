// BF16 projections: RFC rows h3_qkv_gemm, h3_attention_o_gemm, h3_ffn_gate_up_gemm, h3_ffn_down_gemm (no
// bias), and with a bias the projections of adaln_projection_3mod, the context embedder and the output norm.
//
// Arithmetic: y = R(chain(x, W) + bias). The chain (kernels/numerics/chain.h) walks K ascending in one piece,
// whatever the number of rows; the bias is added in FP32; R is the one rounding to BF16, to nearest even. A
// row of y therefore depends on its row of x alone.
//
// Gradients are the same chain over another extent: dX over N ascending, dW over the S rows ascending.
// The bias' is R(row sum of dy) (kernels/numerics/row_sum.h).
//
// Errors: one line for a wrong dtype, a shape that does not fit, or an empty operand.
#pragma once

#include <span>

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x (S,K) bf16, weight (N,K) bf16, bias (N) bf16 or null -> y (S,N): bf16, or fp32 to see the sum before
// rounding. Leading extents of x and y are taken together as S.
void linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y);

// dy (S,N) bf16, weight (N,K) bf16 -> dx (S,K), bf16 or fp32.
void linear_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx);

// dy (S,N) bf16, x (S,K) bf16 -> dweight (N,K), bf16 or fp32.
void linear_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight);

// dy (S,N) bf16 -> dbias (N) bf16.
void linear_bias_gradient(const Tensor& dy, Tensor& dbias);

// On a Hopper GPU: the same bytes. One FP32 accumulator for every element, in the matrix instruction's own
// registers from the first step to the last; the depth ascending in one piece, whatever the shape (never
// split, no atomics); the bias added in FP32, then the one rounding. So tiles, chosen by shape for speed, do
// not touch the bits.
//
// Operands lie on the GPU. N and K are multiples of 8; any S. The call returns before the work is done; it
// may start while the launch before it on the stream drains, and reads and writes nothing before that one has
// finished.
namespace cuda {

void linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y, Stream stream = nullptr);

// One x and up to three weights of one shape (q, k and v) in one launch: ys[i] = linear(x, weights[i]).
void linear(const Tensor& x, std::span<const Tensor> weights, std::span<Tensor> ys, Stream stream = nullptr);

void linear_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream = nullptr);
void linear_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream = nullptr);

// `workspace` is fp32 with at least linear_bias_workspace(S, N) elements.
void linear_bias_gradient(const Tensor& dy, Tensor& dbias, Tensor& workspace, Stream stream = nullptr);
std::int64_t linear_bias_workspace(std::int64_t rows, std::int64_t outputs);

// The tile taken by its number, for tests and measurements. Operands as in the call that it stands for: x,
// weight -> y; dy, weight -> dx; dy, x -> dweight. Only `forward` takes a bias.
enum class Product { forward, input_gradient, weight_gradient };
int tile_count(Product product);
void product_with_tile(Product product, int tile, const Tensor& x, const Tensor& weight, const Tensor* bias,
                       Tensor& y, Stream stream = nullptr);

}  // namespace cuda

}  // namespace h3::kernels
