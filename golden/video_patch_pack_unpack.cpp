#include "golden/video_patch_pack_unpack.h"

#include "golden/reals.h"

namespace h3::golden {
namespace {

// Calls visit(latent element, row element) for every pair.
template <class Visit>
void for_each_pair(const Shape& shape, const Patch& patch, const Visit& visit) {
  require(shape.size() == 5 && shape[2] % patch.t == 0 && shape[3] % patch.h == 0 && shape[4] % patch.w == 0,
          "golden video_patch: latents {}, expected (B, C, T, H, W) in whole patches {}x{}x{}",
          to_string(shape), patch.t, patch.h, patch.w);
  const std::int64_t channels = shape[1], frames = shape[2], height = shape[3], width = shape[4];
  std::int64_t latent = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t t = 0; t < frames; ++t)
        for (std::int64_t y = 0; y < height; ++y)
          for (std::int64_t x = 0; x < width; ++x) {
            const std::int64_t frame = b * (frames / patch.t) + t / patch.t;
            const std::int64_t row =
                (frame * (height / patch.h) + y / patch.h) * (width / patch.w) + x / patch.w;
            const std::int64_t inside =
                ((c * patch.t + t % patch.t) * patch.h + y % patch.h) * patch.w + x % patch.w;
            visit(latent++, row * channels * patch.t * patch.h * patch.w + inside);
          }
}

}  // namespace

Tensor video_patch_pack(const Tensor& latents, const Patch& patch) {
  const Shape& shape = latents.shape();
  const Reals from(latents);
  Tensor rows(border_of(latents), {latents.elements()});
  const Store to(rows);
  for_each_pair(shape, patch, [&](std::int64_t latent, std::int64_t row) { to.set(row, from[latent]); });
  const std::int64_t cols = shape[1] * patch.t * patch.h * patch.w;
  return rows.reshaped({shape[0], latents.elements() / shape[0] / cols, cols});
}

Tensor video_patch_unpack(const Tensor& rows, const Shape& latent_shape, const Patch& patch) {
  Tensor latents(border_of(rows), latent_shape);
  require(rows.elements() == latents.elements(),
          "golden video_patch: rows {} for latents {}: expected {} values", to_string(rows.shape()),
          to_string(latent_shape), latents.elements());
  const Reals from(rows);
  const Store to(latents);
  for_each_pair(latent_shape, patch,
                [&](std::int64_t latent, std::int64_t row) { to.set(latent, from[row]); });
  return latents;
}

}  // namespace h3::golden
