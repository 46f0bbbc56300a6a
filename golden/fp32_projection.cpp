#include "golden/fp32_projection.h"

#include "golden/bound.h"
#include "golden/reals.h"

namespace h3::golden {

Tensor fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Summation summation) {
  require(weight.dtype() == border_of(x) && bias.dtype() == border_of(x),
          "golden fp32_projection: weight {} and bias {}, expected {}", name_of(weight.dtype()),
          name_of(bias.dtype()), name_of(border_of(x)));
  return product(x, weight, &bias, summation, border_of(x));
}

LinearGradients fp32_projection_backward(const Tensor& x, const Tensor& weight, const Tensor& gradient,
                                         Summation summation) {
  require(weight.dtype() == border_of(x), "golden fp32_projection_backward: weight {}, expected {}",
          name_of(weight.dtype()), name_of(border_of(x)));
  return linear_backward(x, weight, gradient, summation);
}

Tensor fp32_projection_bound(const Tensor& x, const Tensor& weight, const Tensor& bias, Summation summation) {
  const Tensor terms = fp32_projection(absolute(x), absolute(weight), absolute(bias), summation);
  return bound_of(terms, [&](std::int64_t i) { return terms.at(i) * fp32_sum_unit(weight.cols()); });
}

}  // namespace h3::golden
