#include "kernels/rotary_tables.h"

#include <cmath>

#include "kernels/checks.h"
#include "kernels/numerics/device_functions.h"
#include "model/parallel.h"

namespace h3::kernels {

std::vector<float> rotary_frequencies(std::int64_t freq_dim, double theta) {
  std::vector<float> inverse;
  for (std::int64_t k = 0; k < freq_dim; ++k) {
    const float exponent = float(2 * k) / float(2 * freq_dim);
    inverse.push_back(1.0f / float(std::pow(theta, double(exponent))));
  }
  return inverse;
}

void rotary_tables(const Tensor& positions, double theta, Tensor& cos, Tensor& sin) {
  constexpr const char* kRow = "rotary_tables";
  require_dtype(kRow, "positions", positions, {DType::fp64});
  require_rank(kRow, "positions", positions, 2);
  const std::int64_t rows = positions.shape()[0];
  require_tensor(kRow, "positions", positions, DType::fp64, {rows, 3});
  require_dtype(kRow, "cos", cos, {DType::fp32});
  require_rank(kRow, "cos", cos, 2);
  const std::int64_t cols = cos.cols(), axis = cols / 6, half = 3 * axis;
  require(theta > 0 && cols == 6 * axis,
          "{}: theta {} and {} columns, expected a positive theta and 6 f columns", kRow, theta, cols);
  require_tensor(kRow, "cos", cos, DType::fp32, {rows, cols});
  require_tensor(kRow, "sin", sin, DType::fp32, {rows, cols});
  for (std::int64_t i = 0; i < 3 * rows; ++i) {
    require(std::isfinite(float(positions.data<double>()[i])),
            "{}: positions[{}][{}] is {}, expected a finite number", kRow, i / 3, i % 3,
            positions.data<double>()[i]);
  }

  const std::vector<float> inverse = rotary_frequencies(axis, theta);
  parallel_for(0, rows, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      float *c = cos.data<float>() + s * cols, *d = sin.data<float>() + s * cols;
      for (std::int64_t i = 0; i < half; ++i) {
        const float angle =
            float(positions.data<double>()[3 * s + i / axis]) * inverse[std::size_t(i % axis)];
        c[i] = c[i + half] = numerics::cuda_cosf(angle);
        d[i] = d[i + half] = numerics::cuda_sinf(angle);
      }
    }
  });
}

}  // namespace h3::kernels
