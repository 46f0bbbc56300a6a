// Nodes norm1, norm2, token_refiner.final_norm and the refiner's norms (provider: nn.RMSNorm, then
// modulation).
//   n = x w / sqrt(mean(x^2) + eps) over the last axis; modulated: n (1 + scale[index]) + shift[index].
//   Everything FP64 between x and the one rounding to FP32. Any finite x, eps > 0.
#pragma once

#include "golden/table_part.h"

namespace h3::golden {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);  // x (..., C), weight (C)

// x (S, C); shift and scale of C columns; index (S) int64: the table row of each row of x.
Tensor modulated_rms_norm(const Tensor& x, const Tensor& weight, double eps, const TablePart& shift,
                          const TablePart& scale, const Tensor& index);

}  // namespace h3::golden
