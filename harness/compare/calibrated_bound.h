// The rules of block 0 for a tensor without a record: how far from the golden a result may be, from how far
// the strict row is that stands in the provider's place.
#pragma once

#include "harness/compare/compare.h"

namespace h3 {

inline constexpr double kForwardFactor = 1.25, kBackwardFactor = 1.5;  // the k of either rule

Bound calibrated_bound(const Tensor& golden, const Tensor& strict);           // 1.25 x its error + 1e-3
Bound calibrated_gradient_bound(const Tensor& golden, const Tensor& strict);  // ProviderGradient::bound()

}  // namespace h3
