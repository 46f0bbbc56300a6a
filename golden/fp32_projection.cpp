#include "golden/fp32_projection.h"

namespace h3::golden {

Tensor fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Summation summation) {
  require(weight.dtype() == DType::fp32 && bias.dtype() == DType::fp32,
          "golden fp32_projection: weight {} and bias {}, expected fp32", name_of(weight.dtype()),
          name_of(bias.dtype()));
  return product(x, weight, &bias, summation);
}

}  // namespace h3::golden
