#include "model/scheduler.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace h3 {
namespace {

std::vector<float> linspace_from_1_to_0(std::int64_t points) {
  const float step = -1.0f / float(points - 1);
  std::vector<float> values;
  for (std::int64_t i = 0; i < points; ++i)
    values.push_back(i < points / 2 ? std::fma(step, float(i), 1.0f) : 0.0f - step * float(points - 1 - i));
  return values;
}

Schedule with_timesteps(std::vector<float> sigmas) {
  Schedule schedule;
  for (std::size_t i = 0; i + 1 < sigmas.size(); ++i) schedule.timesteps.push_back(1.0f - sigmas[i]);
  schedule.sigmas = std::move(sigmas);
  return schedule;
}

}  // namespace

EulerCoefficients Schedule::euler(std::int64_t evaluation) const {
  require(evaluation >= 0 && evaluation < evaluations(), "schedule: evaluation {}, expected 0..{}",
          evaluation, evaluations() - 1);
  const auto i = std::size_t(evaluation);
  return {1.0f - timesteps[i], sigmas[i + 1] / sigmas[i]};
}

std::int64_t Schedule::index_of(float timestep) const {
  const auto found = std::find(timesteps.begin(), timesteps.end(), timestep);
  require(found != timesteps.end(), "schedule: timestep {} is not one of its {} timesteps", timestep,
          timesteps.size());
  return found - timesteps.begin();
}

Schedule make_schedule(std::int64_t grid_points, double shift) {
  require(grid_points >= 2, "schedule: {} grid points, expected at least 2 (the final 0 counts)",
          grid_points);
  require(std::isfinite(shift) && shift > 0, "schedule: shift {}, expected a positive number", shift);
  const float scale = float(shift), slope = float(shift - 1.0);
  std::vector<float> sigmas;
  for (const float base : linspace_from_1_to_0(grid_points)) {
    const float numerator = scale * base, denominator = 1.0f + slope * base;
    sigmas.push_back(numerator / denominator);
  }
  sigmas.erase(std::unique(sigmas.begin(), sigmas.end()), sigmas.end());
  return with_timesteps(std::move(sigmas));
}

Schedule schedule_from_sigmas(std::span<const double> values) {
  const std::vector<float> sigmas(values.begin(), values.end());
  require(sigmas.size() >= 2, "schedule: {} sigmas, expected at least 2", sigmas.size());
  for (std::size_t i = 0; i < sigmas.size(); ++i) {
    require(sigmas[i] >= 0 && sigmas[i] <= 1, "schedule: sigma {} is {}, expected a value in [0, 1]", i,
            sigmas[i]);
    require(i == 0 || sigmas[i] < sigmas[i - 1],
            "schedule: sigma {} is {} after {}, expected strictly decreasing", i, sigmas[i],
            sigmas[i == 0 ? 0 : i - 1]);
  }
  require(sigmas.back() == 0, "schedule: the last sigma is {}, expected 0", sigmas.back());
  return with_timesteps(sigmas);
}

}  // namespace h3
