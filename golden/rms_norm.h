// Nodes norm1, norm2, token_refiner.final_norm and the refiner's norms (provider: nn.RMSNorm, then
// modulation).
//   n = x w / sqrt(mean(x^2) + eps) over the last axis; modulated: n (1 + scale[index]) + shift[index].
//   Everything FP64 between x and the one rounding to FP32. Any finite x, eps > 0.
#pragma once

#include "golden/table_part.h"

namespace h3::golden {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);  // x (..., C), weight (C)

// One rounding to BF16; a sum of C squares in FP32, halved by the root, and five more FP32 operations.
Tensor rms_norm_bound(const Tensor& x, const Tensor& weight, double eps);

// With r = 1 / sqrt(mean(x^2) + eps) and g = w dy: dx = r g - x r^3 mean(g x), dw = sum over the rows of dy x
// r.
struct RmsNormGradients {
  Tensor x, weight;
};
RmsNormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& gradient);

// x (S, C); shift and scale of C columns; index (S) int64: the table row of each row of x.
Tensor modulated_rms_norm(const Tensor& x, const Tensor& weight, double eps, const TablePart& shift,
                          const TablePart& scale, const Tensor& index);

// Roundings of the norm, of 1 + scale and of their product on the product, and of the sum on the result.
Tensor modulated_rms_norm_bound(const Tensor& x, const Tensor& weight, double eps, const TablePart& shift,
                                const TablePart& scale, const Tensor& index);

// The norm's backward with dn = dy (1 + scale[index]); a table row sums over the rows that chose it, dy for
// the shift and dy n for the scale. shift and scale are (R, C), the parts alone, R the rows of the scale's
// table.
struct ModulatedRmsNormGradients {
  Tensor x, weight, shift, scale;
};
ModulatedRmsNormGradients modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, double eps,
                                                      const TablePart& scale, const Tensor& index,
                                                      const Tensor& gradient);

}  // namespace h3::golden
