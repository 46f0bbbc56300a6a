#include "golden/adaln_projection.h"

#include "golden/bound.h"
#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor silu_of(const Tensor& temb) {
  const Tensor x = fp32(temb);
  Tensor z(DType::fp64, temb.shape());
  for (std::int64_t i = 0; i < z.elements(); ++i) z.data<double>()[i] = silu(x.data<float>()[i]);
  return z;
}

Tensor adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Summation summation) {
  const Tensor table = product(silu_of(temb), weight, &bias, summation);
  require(table.cols() % 18 == 0, "golden adaln_projection: {} outputs, expected 3 tags of 6 parts",
          table.cols());
  return table.reshaped({3 * table.rows(), table.cols() / 3});
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
