#include "golden/ode_step.h"

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

}  // namespace h3::golden
