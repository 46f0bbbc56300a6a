#include "golden/final_adaln_out.h"

#include "golden/adaln_projection.h"
#include "golden/rms_norm.h"

namespace h3::golden {

Tensor final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Summation summation) {
  return product(silu_of(temb), weight, &bias, summation, border_of(temb));
}

LinearGradients final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& gradient,
                                           Summation summation) {
  return adaln_projection_backward(temb, weight, gradient, summation);
}

Tensor final_adaln_out(const Tensor& x, const Tensor& norm_weight, double eps, const Tensor& table,
                       const Tensor& timestep_indices) {
  require(table.cols() == 2 * x.cols(),
          "golden final_adaln_out: table {}, expected shift and scale of {} columns",
          to_string(table.shape()), x.cols());
  return modulated_rms_norm(x, norm_weight, eps, {table, 0}, {table, 1}, timestep_indices);
}

FinalAdalnOutGradients final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, double eps,
                                                const Tensor& table, const Tensor& timestep_indices,
                                                const Tensor& gradient) {
  const auto [dx, dweight, dshift, dscale] =
      modulated_rms_norm_backward(x, norm_weight, eps, {table, 1}, timestep_indices, gradient);
  return {dx, dweight, table_gradient(table.shape(), {{dshift, 0}, {dscale, 1}})};
}

}  // namespace h3::golden
