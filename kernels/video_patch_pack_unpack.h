// Video latents to packed rows and back, a permutation that touches no value, so that each is the
// other's backward. RFC row video_patch_pack_unpack.
//
// latents (B, C, T, H, W) <-> rows (B, T/pt * H/ph * W/pw, C * pt * ph * pw). Rows are frame-major, then
// row-major; inside a row the latent channel is the slowest index, then dt, dh, dw. The released patch is (1,
// 2, 2): 96 = 24 * 4.
//
// Errors: not fp32, extents that the patch does not divide, shapes that do not fit.
#pragma once

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

struct Patch {
  std::int64_t t = 1, h = 2, w = 2;
};

void video_patch_pack(const Tensor& latents, const Patch& patch, Tensor& rows);
void video_patch_unpack(const Tensor& rows, const Patch& patch, Tensor& latents);

// The errors of both, wherever the tensors lie.
void require_patches(const char* row, const Tensor& latents, const Patch& patch, const Tensor& rows);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
void video_patch_pack(const Tensor& latents, const Patch& patch, Tensor& rows, Stream stream);
void video_patch_unpack(const Tensor& rows, const Patch& patch, Tensor& latents, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
