#include "harness/compare/calibrated_bound.h"

#include "harness/compare/provider_record.h"

namespace h3 {

Bound calibrated_bound(const Tensor& golden, const Tensor& strict) {
  return {.relative_l2 = kForwardFactor * compare(golden, strict).relative_l2 + 1e-3};
}

Bound calibrated_gradient_bound(const Tensor& golden, const Tensor& strict) {
  const Comparison error = compare(golden, strict);
  ProviderGradient as_recorded;
  as_recorded.dtype = strict.dtype();
  as_recorded.relative_l2 = error.relative_l2;
  as_recorded.max_abs = error.max_abs;
  as_recorded.absmax = error.expected_absmax;
  return as_recorded.bound();
}

}  // namespace h3
