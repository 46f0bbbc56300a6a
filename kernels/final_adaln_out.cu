#include "kernels/adaln_projection.h"
#include "kernels/cuda/device.h"
#include "kernels/final_adaln_out.h"
#include "kernels/linear.h"
#include "kernels/rms_norm.h"

namespace h3::kernels::cuda {

void final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& z, Tensor& table, Stream stream) {
  h3::cuda::require_tensor("final_adaln_out", "table", table, DType::bf16, {temb.rows(), bias.elements()});
  modulation_input(temb, z, stream);
  linear(z, weight, &bias, table, stream);
}

void final_adaln_out(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                     const h3::cuda::RowIndex& timestep_indices, Tensor& y, Stream stream) {
  require(table.cols() == 2 * x.cols(), "final_adaln_out: table is {}, expected {} columns: shift, then scale",
          to_string(table.shape()), 2 * x.cols());
  modulated_rms_norm(x, norm_weight, eps, {table, 0}, {table, 1}, timestep_indices, y, stream);
}

void final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& z, Tensor& dz,
                                Tensor& dtemb, Tensor& dweight, Tensor& dbias, Tensor& workspace, Stream stream) {
  h3::cuda::require_tensor("final_adaln_out_backward", "dtable", dtable, DType::bf16, {temb.rows(), weight.rows()});
  modulation_projection_backward(temb, weight, dtable, z, dz, dtemb, dweight, dbias, workspace, stream);
}

void final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                              const h3::cuda::RowIndex& timestep_indices, const Tensor& dy, Tensor& dx,
                              Tensor& dnorm_weight, Tensor& dtable, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "final_adaln_out_backward";
  require(table.cols() == 2 * x.cols(), "{}: table is {}, expected {} columns: shift, then scale", kRow,
          to_string(table.shape()), 2 * x.cols());
  h3::cuda::require_tensor(kRow, "dtable", dtable, DType::bf16, table.shape());
  modulated_rms_norm_backward(x, norm_weight, eps, {table, 1}, timestep_indices, dy, dx, dnorm_weight, {dtable, 0},
                              {dtable, 1}, workspace, stream);
}

}  // namespace h3::kernels::cuda
