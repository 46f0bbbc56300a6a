#include "golden/ode_step.h"

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {

Tensor ode_step(const Tensor& x, const Tensor& velocity, float timestep, float sigma, float sigma_next) {
  require_shape("ode_step", "velocity", velocity, x.shape());
  require(timestep >= 0 && timestep <= 1 && sigma_next >= 0 && sigma_next < sigma && sigma <= 1,
          "golden ode_step: timestep {}, sigma {} -> {}: expected falling sigmas and everything in 0..1",
          timestep, sigma, sigma_next);
  const double noise = 1 - double(timestep), ratio = double(sigma_next) / double(sigma);
  Tensor next(DType::fp32, x.shape());
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double sample = x.data<float>()[i];
    const double clean = sample + noise * double(velocity.data<float>()[i]);
    next.data<float>()[i] = float(ratio * sample + (1 - ratio) * clean);
  }
  return next;
}

Tensor ode_step_bound(const Tensor& x, const Tensor& velocity, float timestep, float sigma,
                      float sigma_next) {
  const Tensor y = ode_step(x, velocity, timestep, sigma, sigma_next);
  const double noise = 1 - double(timestep), ratio = double(sigma_next) / double(sigma);
  return bound_of(y, [&](std::int64_t i) {
    const double sample = std::fabs(x.at(i)), step = std::fabs(noise * double(velocity.at(i)));
    const double kept = ratio * sample, clean = (1 - ratio) * (sample + step);
    return kFp32Unit *
           (2 * kept + 3 * clean + ratio * (sample + step) + 2 * (1 - ratio) * step + std::fabs(y.at(i)));
  });
}

}  // namespace h3::golden
