// On Hopper: a thread per element, in the order of the rows.
#include "kernels/cuda/device.h"
#include "kernels/video_patch_pack_unpack.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Extents {
  std::int64_t channels, frames, height, width;
  Patch patch;
};

// The latent element that row element `element` comes from.
__device__ std::int64_t latent_of(std::int64_t element, const Extents& z) {
  const auto take = [&](std::int64_t extent) {
    const std::int64_t digit = element % extent;
    element /= extent;
    return digit;
  };
  const std::int64_t dw = take(z.patch.w), dh = take(z.patch.h), dt = take(z.patch.t), c = take(z.channels);
  const std::int64_t w = take(z.width / z.patch.w), h = take(z.height / z.patch.h),
                     t = take(z.frames / z.patch.t);
  const std::int64_t frame = (element * z.channels + c) * z.frames + t * z.patch.t + dt;
  return (frame * z.height + h * z.patch.h + dh) * z.width + w * z.patch.w + dw;
}

template <bool kPack>
__global__ void __launch_bounds__(kThreads)
    permute(const float* in, const Extents z, std::int64_t count, float* out) {
  const std::int64_t element = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= count) return;
  const std::int64_t latent = latent_of(element, z);
  if (kPack)
    out[element] = in[latent];
  else
    out[latent] = in[element];
}

template <bool kPack>
void run(const char* row, const Tensor& latents, const Patch& patch, const Tensor& rows, std::byte* out,
         Stream stream) {
  require_patches(row, latents, patch, rows);
  h3::cuda::require_tensor(row, "latents", latents, DType::fp32, latents.shape());
  h3::cuda::require_tensor(row, "rows", rows, DType::fp32, rows.shape());
  const Tensor& in = kPack ? latents : rows;
  const Shape& z = latents.shape();
  const std::int64_t count = latents.elements(), blocks = (count + kThreads - 1) / kThreads;
  require(blocks < (std::int64_t(1) << 31), "{}: latents are {}, too large for one launch", row,
          to_string(z));
  permute<kPack><<<unsigned(blocks), kThreads, 0, stream>>>(
      in.data<float>(), Extents{z[1], z[2], z[3], z[4], patch}, count, reinterpret_cast<float*>(out));
  h3::cuda::check_launch(row);
}

}  // namespace

void video_patch_pack(const Tensor& latents, const Patch& patch, Tensor& rows, Stream stream) {
  run<true>("video_patch_pack", latents, patch, rows, rows.bytes(), stream);
}

void video_patch_unpack(const Tensor& rows, const Patch& patch, Tensor& latents, Stream stream) {
  run<false>("video_patch_unpack", latents, patch, rows, latents.bytes(), stream);
}

}  // namespace h3::kernels::cuda
