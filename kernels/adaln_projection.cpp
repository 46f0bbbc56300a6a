#include "kernels/adaln_projection.h"

#include <vector>

#include "kernels/checks.h"
#include "kernels/linear.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/rows.h"
#include "model/config.h"

namespace h3::kernels {

void modulation_input(const Tensor& temb, Tensor& z) {
  constexpr const char* kRow = "modulation_input";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_tensor(kRow, "z", z, DType::bf16, temb.shape());
  std::vector<float> activated(static_cast<std::size_t>(temb.elements()));
  numerics::silu_fp32(temb.data<float>(), activated.data(), activated.size());
  numerics::narrow(activated.data(), 0, temb.elements(), z);
}

void adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& table) {
  constexpr const char* kRow = "adaln_projection";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_dtype(kRow, "bias", bias, {DType::bf16});
  const std::int64_t timesteps = temb.rows(), outputs = bias.elements();
  require_tensor(kRow, "weight", weight, DType::bf16, {outputs, temb.cols()});
  require_tensor(kRow, "table", table, DType::bf16, {kTags * timesteps, outputs / kTags});
  require(outputs % (6 * kTags) == 0, "{}: {} outputs, expected 3 tags of 6 parts", kRow, outputs);
  Tensor z(DType::bf16, temb.shape());
  modulation_input(temb, z);
  Tensor product = table.reshaped({timesteps, outputs});
  linear(z, weight, &bias, product);
}

void modulation_input_backward(const Tensor& temb, const Tensor& dz, Tensor& dtemb) {
  constexpr const char* kRow = "modulation_input_backward";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_tensor(kRow, "dz", dz, DType::bf16, temb.shape());
  require_tensor(kRow, "dtemb", dtemb, DType::fp32, temb.shape());
  std::vector<float> wide(static_cast<std::size_t>(temb.elements()));
  numerics::widen(dz, 0, dz.elements(), wide.data());
  numerics::silu_gradient_fp32(wide.data(), temb.data<float>(), dtemb.data<float>(), wide.size());
}

void modulation_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dy, Tensor& dtemb,
                                    Tensor& dweight, Tensor& dbias) {
  constexpr const char* kRow = "modulation_projection_backward";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_dtype(kRow, "weight", weight, {DType::bf16});
  require_tensor(kRow, "dtemb", dtemb, DType::fp32, temb.shape());
  require_tensor(kRow, "dweight", dweight, DType::bf16, weight.shape());
  require_tensor(kRow, "dbias", dbias, DType::bf16, {weight.rows()});
  Tensor z(DType::bf16, temb.shape()), dz(DType::bf16, temb.shape());
  modulation_input(temb, z);
  linear_input_gradient(dy, weight, dz);
  linear_weight_gradient(dy, z, dweight);
  linear_bias_gradient(dy, dbias);
  modulation_input_backward(temb, dz, dtemb);
}

void adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& dtemb,
                               Tensor& dweight, Tensor& dbias) {
  constexpr const char* kRow = "adaln_projection_backward";
  require_dtype(kRow, "temb", temb, {DType::fp32});
  require_rank(kRow, "temb", temb, 2);
  require_dtype(kRow, "weight", weight, {DType::bf16});
  const std::int64_t timesteps = temb.rows(), outputs = weight.rows();
  require_tensor(kRow, "weight", weight, DType::bf16, {outputs, temb.cols()});
  require(outputs % (6 * kTags) == 0, "{}: {} outputs, expected 3 tags of 6 parts", kRow, outputs);
  require_tensor(kRow, "dtable", dtable, DType::bf16, {kTags * timesteps, outputs / kTags});
  modulation_projection_backward(temb, weight, dtable.reshaped({timesteps, outputs}), dtemb, dweight, dbias);
}

}  // namespace h3::kernels
