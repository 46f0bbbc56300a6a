// Boundary norm_out: RMS norm of the packed rows, modulated per timestep (provider:
// MiniMaxH3AdaLayerNormOut).
//   table = W silu(temb) + b (U, 2C): shift is the first half, scale the second; the tag plays no role here.
#pragma once

#include "golden/linear.h"

namespace h3::golden {

// temb (U, TE), W (2C, TE), b (2C) -> (U, 2C), stored FP32.
Tensor final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias,
                         Summation summation = Summation::ordered);

// x (S, C), norm_weight (C), table (U, 2C), timestep_indices (S) int64 -> (S, C).
Tensor final_adaln_out(const Tensor& x, const Tensor& norm_weight, double eps, const Tensor& table,
                       const Tensor& timestep_indices);

// That of adaln_projection, without tags.
LinearGradients final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& gradient,
                                           Summation summation = Summation::ordered);

struct FinalAdalnOutGradients {
  Tensor x, norm_weight, table;
};
FinalAdalnOutGradients final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, double eps,
                                                const Tensor& table, const Tensor& timestep_indices,
                                                const Tensor& gradient);

}  // namespace h3::golden
