// Rectified-flow schedules of MiniMax-H3, bitwise as the provider's MiniMaxH3Scheduler (diffusers 0.42.1).
// One schedule per modality, stepped in the same model call. Time runs upwards: t = 1 - sigma, 1 is clean.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace h3 {

inline constexpr double kVideoShift = 12.0;
inline constexpr double kAudioShift = 3.0;
inline constexpr std::int64_t kDefaultGridPoints = 50;  // 49 evaluations

// The Euler step of evaluation i, elementwise in FP32, one rounding per operation (kernel h3_ode_step):
//   x0 = x + noise_level * v        the velocity points towards the data
//   x' = ratio * x + (1 - ratio) * x0
struct EulerCoefficients {
  float noise_level;  // f32(1 - t): from the timestep, not the grid; below 0.5 the two differ by rounding
  float ratio;        // f32(sigma[i + 1] / sigma[i]); 0 in the last step
};

struct Schedule {
  std::vector<float> sigmas;     // strictly decreasing, the last is 0
  std::vector<float> timesteps;  // f32(1 - sigma), one per evaluation: the final 0 has none

  std::int64_t evaluations() const { return std::int64_t(timesteps.size()); }
  EulerCoefficients euler(std::int64_t evaluation) const;
  std::int64_t index_of(float timestep) const;  // exact equality, as the provider looks it up
};

// `grid_points` is the provider's num_inference_steps: it counts the final 0, so one evaluation less is run.
//   base = linspace(1, 0, grid_points); sigma = shift * base / (1 + (shift - 1) * base); neighbours merge.
// linspace: step = f32(-1 / (n - 1)); the first half is fma(step, i, 1), the second -step * (n - 1 - i). The
// fused form is what torch 2.11 computes on x86-64 with AVX2 or AVX-512; without either it rounds the product
// first and up to one ulp of some first-half values differs.
// Errors: fewer than 2 points, a shift that is not positive and finite.
Schedule make_schedule(std::int64_t grid_points, double shift);

// Given sigmas are used as they are, rounded to FP32: no shift, no collapsing.
// Errors: fewer than 2 values, not strictly decreasing within [0, 1], last not 0.
Schedule schedule_from_sigmas(std::span<const double> sigmas);

}  // namespace h3
