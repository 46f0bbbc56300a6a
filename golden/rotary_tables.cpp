#include "golden/rotary_tables.h"

#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor rotary_frequencies(std::int64_t freq_dim, double theta) {
  require(theta == 10000.0, "golden rotary_frequencies: theta {}, expected 10000", theta);
  constexpr double kLogOfTheta = 9.210340371976182736;  // ln 10000
  Tensor inverse(DType::fp32, {freq_dim});
  for (std::int64_t k = 0; k < freq_dim; ++k)
    inverse.data<float>()[k] = 1.0f / float(exp(kLogOfTheta * double(k) / double(freq_dim)));
  return inverse;
}

RotaryTables rotary_tables(const Tensor& positions, const Tensor& frequencies) {
  const std::int64_t rows = positions.rows(), f = frequencies.elements();
  require_shape("rotary_tables", "positions", positions, {rows, 3});
  const Tensor position = positions.to(DType::fp32);
  const float* inverse = frequencies.data<float>();
  RotaryTables tables{Tensor(DType::fp32, {rows, 6 * f}), Tensor(DType::fp32, {rows, 6 * f})};
  for_each_row(rows, [&](std::int64_t s) {
    for (std::int64_t i = 0; i < 6 * f; ++i) {
      const std::int64_t axis = i / f % 3, k = i % f;
      const float angle = position.data<float>()[s * 3 + axis] * inverse[k];
      tables.cos.data<float>()[s * 6 * f + i] = float(cos(double(angle)));
      tables.sin.data<float>()[s * 6 * f + i] = float(sin(double(angle)));
    }
  });
  return tables;
}

}  // namespace h3::golden
