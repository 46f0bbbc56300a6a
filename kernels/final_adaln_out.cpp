#include "kernels/final_adaln_out.h"

#include "kernels/adaln_projection.h"
#include "kernels/checks.h"
#include "kernels/linear.h"
#include "kernels/rms_norm.h"

namespace h3::kernels {

void final_adaln_table(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& table) {
  constexpr const char* kRow = "final_adaln_out";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_dtype(kRow, "bias", bias, {DType::bf16});
  const std::int64_t outputs = bias.elements();
  require_tensor(kRow, "weight", weight, DType::bf16, {outputs, temb.cols()});
  require_tensor(kRow, "table", table, DType::bf16, {temb.rows(), outputs});
  Tensor z(DType::bf16, temb.shape());
  modulation_input(temb, z);
  linear(z, weight, &bias, table);
}

void final_adaln_out(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                     const Tensor& timestep_indices, Tensor& y) {
  constexpr const char* kRow = "final_adaln_out";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_dtype(kRow, "table", table, {DType::bf16});
  require(table.cols() == 2 * x.cols(), "{}: table is {}, expected {} columns: shift, then scale", kRow,
          to_string(table.shape()), 2 * x.cols());
  modulated_rms_norm(x, norm_weight, eps, {table, 0}, {table, 1}, timestep_indices, y);
}

void final_adaln_table_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& dtemb,
                                Tensor& dweight, Tensor& dbias) {
  constexpr const char* kRow = "final_adaln_out_backward";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_dtype(kRow, "weight", weight, {DType::bf16});
  require_tensor(kRow, "dtable", dtable, DType::bf16, {temb.rows(), weight.rows()});
  modulation_projection_backward(temb, weight, dtable, dtemb, dweight, dbias);
}

void final_adaln_out_backward(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& table,
                              const Tensor& timestep_indices, const Tensor& dy, Tensor& dx,
                              Tensor& dnorm_weight, Tensor& dtable) {
  constexpr const char* kRow = "final_adaln_out_backward";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_dtype(kRow, "table", table, {DType::bf16});
  require(table.cols() == 2 * x.cols(), "{}: table is {}, expected {} columns: shift, then scale", kRow,
          to_string(table.shape()), 2 * x.cols());
  require_tensor(kRow, "dtable", dtable, DType::bf16, table.shape());
  modulated_rms_norm_backward(x, norm_weight, eps, {table, 1}, timestep_indices, dy, dx, dnorm_weight,
                              {dtable, 0}, {dtable, 1});
}

}  // namespace h3::kernels
