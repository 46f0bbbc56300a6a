#include "golden/timestep_sinusoid.h"

#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor timestep_sinusoid(const Tensor& timestep, std::int64_t features) {
  require(features > 0 && features % 2 == 0, "golden timestep_sinusoid: {} features, expected an even count",
          features);
  const Tensor t = widened(timestep);
  const std::int64_t count = t.elements(), half = features / 2;
  Tensor y(DType::fp32, {count, features});
  constexpr double kLogOfBase = 9.210340371976182736;  // ln 10000
  for (std::int64_t u = 0; u < count; ++u) {
    const double time = Reals(t)[u];
    require(time >= 0 && time <= 1, "golden timestep_sinusoid: timestep {} is {}, expected 0..1", u, time);
    for (std::int64_t k = 0; k < half; ++k) {
      const double angle = time * exp(-kLogOfBase * double(k) / double(half));
      y.data<float>()[u * features + k] = float(cos(angle));
      y.data<float>()[u * features + half + k] = float(sin(angle));
    }
  }
  return y;
}

}  // namespace h3::golden
