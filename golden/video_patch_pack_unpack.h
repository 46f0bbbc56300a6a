// Video latents to packed rows and back: a permutation, values untouched. So each one is the other's
// gradient.
//   latents (B, C, T, H, W) <-> rows (B, T/pt * H/ph * W/pw, C pt ph pw): rows frame-major, then row-major;
//   inside a row the latent channel is the slowest index, then (dt, dh, dw).
#pragma once

#include "model/tensor.h"

namespace h3::golden {

struct Patch {
  std::int64_t t = 1, h = 2, w = 2;
};

Tensor video_patch_pack(const Tensor& latents, const Patch& patch = {});
Tensor video_patch_unpack(const Tensor& rows, const Shape& latent_shape, const Patch& patch = {});

}  // namespace h3::golden
