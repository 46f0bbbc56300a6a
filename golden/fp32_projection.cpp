#include "golden/fp32_projection.h"

#include "golden/bound.h"

namespace h3::golden {

Tensor fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Summation summation) {
  require(weight.dtype() == DType::fp32 && bias.dtype() == DType::fp32,
          "golden fp32_projection: weight {} and bias {}, expected fp32", name_of(weight.dtype()),
          name_of(bias.dtype()));
  return product(x, weight, &bias, summation);
}

Tensor fp32_projection_bound(const Tensor& x, const Tensor& weight, const Tensor& bias, Summation summation) {
  const Tensor terms = fp32_projection(absolute(x), absolute(weight), absolute(bias), summation);
  return bound_of(terms, [&](std::int64_t i) { return terms.at(i) * fp32_sum_unit(weight.cols()); });
}

}  // namespace h3::golden
