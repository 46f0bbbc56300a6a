// Boundary euler_update: one step of the rectified-flow sampler (provider: MiniMaxH3Scheduler.step, eta = 0).
//   x0 = x + (1 - t) v (the velocity points to the data), r = sigma_next / sigma, x' = r x + (1 - r) x0.
//   t is the step's timestep: the sigma of x0 comes from it, the ratio from the grid. The last step has r =
//   0. x, v (...) FP32, same shape; 0 <= t <= 1, 0 <= sigma_next < sigma <= 1.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

Tensor ode_step(const Tensor& x, const Tensor& velocity, float timestep, float sigma, float sigma_next);

// Every FP32 operation rounds once: 1 - t, s v, x0, r, r x, 1 - r, (1 - r) x0 and the sum.
Tensor ode_step_bound(const Tensor& x, const Tensor& velocity, float timestep, float sigma, float sigma_next);

}  // namespace h3::golden
