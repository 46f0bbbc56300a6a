#include "golden/linear.h"

namespace h3::golden {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation) {
  return product(x, weight, bias, summation);
}

}  // namespace h3::golden
