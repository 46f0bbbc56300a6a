#include "golden/linear.h"

#include "golden/bound.h"
#include "golden/reals.h"

namespace h3::golden {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation) {
  return product(x, weight, bias, summation, border_of(x));
}

LinearGradients linear_backward(const Tensor& x, const Tensor& weight, const Tensor& gradient,
                                Summation summation) {
  const DType border = border_of(x);
  return {input_gradient(gradient, weight, summation, border),
          weight_gradient(gradient, x, summation, border), bias_gradient(gradient, border)};
}

Tensor linear_bound(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation) {
  const Tensor y = linear(x, weight, bias, summation);
  const Tensor magnitudes = bias ? absolute(*bias) : Tensor();
  const Tensor terms = linear(absolute(x), absolute(weight), bias ? &magnitudes : nullptr, summation);
  return bound_of(y, [&](std::int64_t i) {
    return terms.at(i) * fp32_sum_unit(weight.cols()) + std::fabs(y.at(i)) * kBf16Unit;
  });
}

}  // namespace h3::golden
