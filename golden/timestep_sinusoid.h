// Sinusoidal features of the distinct timesteps (provider: Timesteps, flip_sin_to_cos, shift 0).
//   e[u, k] = cos(t_u g_k), e[u, F/2 + k] = sin(t_u g_k), g_k = 10000^(-2k/F), k < F/2: the cosine half
//   first.
// Domain: t (U) FP32 in [0, 1], anything else is an error; F even. The angle is FP64 all the way: at most one
// radian, so the provider's FP32 angle costs less than 2e-7.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

// Absolute. The exponent, up to 9.2, is rounded three times in FP32 before exp: with z e^-z <= 0.37 that
// turns the angle by less than 0.37 * 3 * 2^-24 + 2^-23; the rest are cos or sin and the store.
inline constexpr double kTimestepSinusoidBound = 5e-7;

Tensor timestep_sinusoid(const Tensor& timestep, std::int64_t features = 256);  // (U, F) FP32

}  // namespace h3::golden
