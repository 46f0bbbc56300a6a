// One step of the rectified-flow sampler. Boundary euler_update, RFC row h3_ode_step, the provider's
// scheduler step.
//
// Arithmetic, FP32, every operation rounded; bf16 and fp16 rows are widened first and the result is rounded
// once:
//   s = 1 - t              recomputed from the timestep, not read from the grid
//   x0 = x + s * v         plus: the velocity points to the data
//   r = sigma' / sigma     from the grid
//   x' = r * x + (1 - r) * x0
// The last step has sigma' = 0, r = 0 and x' = x0, up to the sign of a zero. The provider keeps its samples
// in FP32; with half-precision samples it would round s * v and x0 to their type, which is not done here.
//
// Errors: t outside [0, 1], sigma not above 0, sigma' outside [0, sigma], wrong dtype or shape.
#pragma once

#include <vector>

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

// x, velocity, next: one shape (..., C) and dtype, fp32, bf16 or fp16. timestep, sigma, sigma_next: fp32, one
// element for all rows or one per row of x.
void ode_step(const Tensor& x, const Tensor& velocity, const Tensor& timestep, const Tensor& sigma,
              const Tensor& sigma_next, Tensor& next);

// What a step takes from the schedule, checked: one entry for all rows, or one per row.
struct StepFactors {
  float s, r, rest;  // rest = 1 - r
};
std::vector<StepFactors> step_factors(const Tensor& timestep, const Tensor& sigma, const Tensor& sigma_next,
                                      std::int64_t rows);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
// timestep, sigma and sigma_next stay on the CPU; with one of them per row the call waits for the stream.
void ode_step(const Tensor& x, const Tensor& velocity, const Tensor& timestep, const Tensor& sigma,
              const Tensor& sigma_next, Tensor& next, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
