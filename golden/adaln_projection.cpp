#include "golden/adaln_projection.h"

#include "golden/bound.h"
#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor silu_of(const Tensor& temb) {
  const Tensor x = widened(temb);
  Tensor z(DType::fp64, temb.shape());
  for (std::int64_t i = 0; i < z.elements(); ++i) z.data<double>()[i] = silu(Reals(x)[i]);
  return z;
}

Tensor adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Summation summation) {
  const Tensor table = product(silu_of(temb), weight, &bias, summation, border_of(temb));
  require(table.cols() % 18 == 0, "golden adaln_projection: {} outputs, expected 3 tags of 6 parts",
          table.cols());
  return table.reshaped({3 * table.rows(), table.cols() / 3});
}

LinearGradients adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& gradient,
                                          Summation summation) {
  const DType border = border_of(temb);
  const Tensor dtable = gradient.reshaped({temb.rows(), weight.rows()}), x = widened(temb);
  const Tensor dz = input_gradient(dtable, weight, summation, DType::fp64);
  Tensor dtemb(border, temb.shape());
  const Store out(dtemb);
  for (std::int64_t i = 0; i < x.elements(); ++i) out.set(i, Reals(dz)[i] * silu_derivative(Reals(x)[i]));
  return {dtemb, weight_gradient(dtable, silu_of(temb), summation, border), bias_gradient(dtable, border)};
}

Tensor adaln_projection_bound(const Tensor& temb, const Tensor& weight, const Tensor& bias,
                              Summation summation) {
  const Tensor table = adaln_projection(temb, weight, bias, summation), magnitudes = absolute(bias);
  const Tensor terms = product(absolute(silu_of(temb)), absolute(weight), &magnitudes, summation);
  return bound_of(table, [&](std::int64_t i) {
    return terms.at(i) * (kBf16Unit + fp32_sum_unit(weight.cols())) + std::fabs(table.at(i)) * kBf16Unit;
  });
}

}  // namespace h3::golden
