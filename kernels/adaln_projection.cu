#include "kernels/adaln_projection.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/linear.h"
#include "model/config.h"

namespace h3::kernels::cuda {
namespace {

__global__ void activate(const float* temb, std::int64_t count, __nv_bfloat16* z) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) z[i] = __float2bfloat16_rn(h3::cuda::silu(temb[i]));
}

__global__ void differentiate(const float* temb, const __nv_bfloat16* dz, std::int64_t count, float* dtemb) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dtemb[i] = h3::cuda::silu_gradient(h3::cuda::widen(dz[i]), temb[i]);
}

}  // namespace

void modulation_input(const Tensor& temb, Tensor& z, Stream stream) {
  constexpr const char* kRow = "modulation_input";
  h3::cuda::require_tensor(kRow, "temb", temb, DType::fp32, temb.shape());
  h3::cuda::require_tensor(kRow, "z", z, DType::bf16, temb.shape());
  const std::int64_t count = temb.elements();
  activate<<<unsigned((count + 255) / 256), 256, 0, stream>>>(temb.data<float>(), count,
                                                             reinterpret_cast<__nv_bfloat16*>(z.bytes()));
  h3::cuda::check_launch(kRow);
}

void adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias, Tensor& z, Tensor& table, Stream stream) {
  constexpr const char* kRow = "adaln_projection";
  const std::int64_t timesteps = temb.rows(), outputs = bias.elements();
  require(outputs % (6 * kTags) == 0, "{}: {} outputs, expected 3 tags of 6 parts", kRow, outputs);
  h3::cuda::require_tensor(kRow, "table", table, DType::bf16, {kTags * timesteps, outputs / kTags});
  modulation_input(temb, z, stream);
  Tensor product = table.reshaped({timesteps, outputs});
  linear(z, weight, &bias, product, stream);
}

void modulation_input_backward(const Tensor& temb, const Tensor& dz, Tensor& dtemb, Stream stream) {
  constexpr const char* kRow = "modulation_input_backward";
  h3::cuda::require_tensor(kRow, "temb", temb, DType::fp32, temb.shape());
  h3::cuda::require_tensor(kRow, "dz", dz, DType::bf16, temb.shape());
  h3::cuda::require_tensor(kRow, "dtemb", dtemb, DType::fp32, temb.shape());
  const std::int64_t count = temb.elements();
  differentiate<<<unsigned((count + 255) / 256), 256, 0, stream>>>(
      temb.data<float>(), reinterpret_cast<const __nv_bfloat16*>(dz.bytes()), count, dtemb.data<float>());
  h3::cuda::check_launch(kRow);
}

void modulation_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dy, Tensor& z, Tensor& dz,
                                    Tensor& dtemb, Tensor& dweight, Tensor& dbias, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "modulation_projection_backward";
  h3::cuda::require_tensor(kRow, "dz", dz, DType::bf16, temb.shape());
  h3::cuda::require_tensor(kRow, "dtemb", dtemb, DType::fp32, temb.shape());
  h3::cuda::require_tensor(kRow, "dweight", dweight, DType::bf16, weight.shape());
  modulation_input(temb, z, stream);
  linear_input_gradient(dy, weight, dz, stream);
  linear_weight_gradient(dy, z, dweight, stream);
  linear_bias_gradient(dy, dbias, workspace, stream);
  modulation_input_backward(temb, dz, dtemb, stream);
}

void adaln_projection_backward(const Tensor& temb, const Tensor& weight, const Tensor& dtable, Tensor& z, Tensor& dz,
                               Tensor& dtemb, Tensor& dweight, Tensor& dbias, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "adaln_projection_backward";
  const std::int64_t timesteps = temb.rows(), outputs = weight.rows();
  require(outputs % (6 * kTags) == 0, "{}: {} outputs, expected 3 tags of 6 parts", kRow, outputs);
  h3::cuda::require_tensor(kRow, "dtable", dtable, DType::bf16, {kTags * timesteps, outputs / kTags});
  modulation_projection_backward(temb, weight, dtable.reshaped({timesteps, outputs}), z, dz, dtemb, dweight, dbias,
                                 workspace, stream);
}

}  // namespace h3::kernels::cuda
