#include "kernels/video_patch_pack_unpack.h"

#include "kernels/checks.h"

namespace h3::kernels {

void require_patches(const char* row, const Tensor& latents, const Patch& patch, const Tensor& rows) {
  require_dtype(row, "latents", latents, {DType::fp32});
  require_rank(row, "latents", latents, 5);
  const Shape& z = latents.shape();
  require(patch.t > 0 && patch.h > 0 && patch.w > 0 && z[2] % patch.t == 0 && z[3] % patch.h == 0 &&
              z[4] % patch.w == 0,
          "{}: latents are {}, expected multiples of the patch {}x{}x{}", row, to_string(z), patch.t, patch.h,
          patch.w);
  require_tensor(
      row, "rows", rows, DType::fp32,
      {z[0], z[2] / patch.t * (z[3] / patch.h) * (z[4] / patch.w), z[1] * patch.t * patch.h * patch.w});
}

namespace {

// Calls move(row element, latent element), row elements ascending from 0.
template <class Move>
void for_each_pair(const Shape& z, const Patch& patch, const Move& move) {
  const std::int64_t channels = z[1], frames = z[2], height = z[3], width = z[4];
  std::int64_t element = 0;
  for (std::int64_t b = 0; b < z[0]; ++b)
    for (std::int64_t t = 0; t < frames; t += patch.t)
      for (std::int64_t h = 0; h < height; h += patch.h)
        for (std::int64_t w = 0; w < width; w += patch.w)
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t dt = 0; dt < patch.t; ++dt)
              for (std::int64_t dh = 0; dh < patch.h; ++dh)
                for (std::int64_t dw = 0; dw < patch.w; ++dw)
                  move(element++,
                       (((b * channels + c) * frames + t + dt) * height + h + dh) * width + w + dw);
}

}  // namespace

void video_patch_pack(const Tensor& latents, const Patch& patch, Tensor& rows) {
  require_patches("video_patch_pack", latents, patch, rows);
  const float* in = latents.data<float>();
  float* out = rows.data<float>();
  for_each_pair(latents.shape(), patch,
                [&](std::int64_t row, std::int64_t latent) { out[row] = in[latent]; });
}

void video_patch_unpack(const Tensor& rows, const Patch& patch, Tensor& latents) {
  require_patches("video_patch_unpack", latents, patch, rows);
  const float* in = rows.data<float>();
  float* out = latents.data<float>();
  for_each_pair(latents.shape(), patch,
                [&](std::int64_t row, std::int64_t latent) { out[latent] = in[row]; });
}

}  // namespace h3::kernels
