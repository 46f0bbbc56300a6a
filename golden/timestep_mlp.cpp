#include "golden/timestep_mlp.h"

#include "golden/math.h"
#include "golden/reals.h"

namespace h3::golden {

Tensor timestep_mlp(const Tensor& e, const Tensor& weight_1, const Tensor& bias_1, const Tensor& weight_2,
                    const Tensor& bias_2, Summation summation) {
  Tensor hidden = product(e, weight_1, &bias_1, summation, DType::fp64);
  for (double& h : hidden.values<double>()) h = silu(h);
  return product(hidden, weight_2, &bias_2, summation, border_of(e));
}

TimestepMlpGradients timestep_mlp_backward(const Tensor& e, const Tensor& weight_1, const Tensor& bias_1,
                                           const Tensor& weight_2, const Tensor& gradient,
                                           Summation summation) {
  const DType border = border_of(e);
  Tensor hidden = product(e, weight_1, &bias_1, summation, DType::fp64);
  Tensor dhidden = input_gradient(gradient, weight_2, summation, DType::fp64);
  for (std::int64_t i = 0; i < hidden.elements(); ++i) {
    double& h = hidden.data<double>()[i];
    dhidden.data<double>()[i] *= silu_derivative(h);
    h = silu(h);
  }
  return {input_gradient(dhidden, weight_1, summation, border),
          weight_gradient(dhidden, e, summation, border), bias_gradient(dhidden, border),
          weight_gradient(gradient, hidden, summation, border), bias_gradient(gradient, border)};
}

}  // namespace h3::golden
