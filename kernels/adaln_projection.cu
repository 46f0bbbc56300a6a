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

}  // namespace h3::kernels::cuda
