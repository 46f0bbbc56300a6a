#include "golden/final_adaln_out.h"

#include "golden/adaln_projection.h"
#include "golden/rms_norm.h"

namespace h3::golden {

Tensor final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Summation summation) {
  return product(silu_of(temb), weight, &bias, summation);
}

Tensor final_adaln_out(const Tensor& x, const Tensor& norm_weight, double eps, const Tensor& table,
                       const Tensor& timestep_indices) {
  require(table.cols() == 2 * x.cols(),
          "golden final_adaln_out: table {}, expected shift and scale of {} columns",
          to_string(table.shape()), x.cols());
  return modulated_rms_norm(x, norm_weight, eps, {table, 0}, {table, 1}, timestep_indices);
}

}  // namespace h3::golden
