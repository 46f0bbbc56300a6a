#include "golden/timestep_mlp.h"

#include "golden/math.h"

namespace h3::golden {

Tensor timestep_mlp(const Tensor& e, const Tensor& weight_1, const Tensor& bias_1, const Tensor& weight_2,
                    const Tensor& bias_2, Summation summation) {
  Tensor hidden = product(e, weight_1, &bias_1, summation, DType::fp64);
  for (double& h : hidden.values<double>()) h = silu(h);
  return product(hidden, weight_2, &bias_2, summation);
}

}  // namespace h3::golden
