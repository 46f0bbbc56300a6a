// Nodes q_norm, k_norm: RMS norm of every head, one weight shared by all heads.
//   x (S, heads * d) or (S, heads, d), weight (d); the result has the shape of x. V is not normalised.
#pragma once

#include "golden/rms_norm.h"

namespace h3::golden {

Tensor qk_norm(const Tensor& x, const Tensor& weight, double eps);
Tensor qk_norm_bound(const Tensor& x, const Tensor& weight, double eps);  // that of rms_norm

// Those of rms_norm; the weight's sum runs over all rows and heads.
RmsNormGradients qk_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& gradient);

}  // namespace h3::golden
