#include "kernels/timestep_sinusoid.h"

#include <bit>
#include <vector>

#include "kernels/checks.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/rows.h"

namespace h3::kernels {

void timestep_sinusoid(const Tensor& t, Tensor& e) {
  constexpr const char* kRow = "timestep_sinusoid";
  require_dtype(kRow, "t", t, {DType::fp32, DType::bf16, DType::fp16});
  require_rank(kRow, "t", t, 1);
  require_dtype(kRow, "e", e, {DType::fp32});
  require_rank(kRow, "e", e, 2);
  const std::int64_t rows = t.elements(), features = e.cols(), half = features / 2;
  require(e.shape()[0] == rows && features == 2 * half, "{}: e is {}, expected {} rows and an even width",
          kRow, to_string(e.shape()), rows);
  std::vector<float> times(static_cast<std::size_t>(rows));
  numerics::widen(t, 0, rows, times.data());
  for (std::int64_t u = 0; u < rows; ++u) {
    require(times[u] >= 0 && times[u] <= 1, "{}: t[{}] is {}, expected 0..1", kRow, u, times[u]);
  }

  constexpr float kMinusLn10000 = std::bit_cast<float>(0xc1135d8eu);
  for (std::int64_t k = 0; k < half; ++k) {
    const float frequency = numerics::cuda_expf(kMinusLn10000 * float(k) / float(half));
    for (std::int64_t u = 0; u < rows; ++u) {
      const float angle = times[u] * frequency;
      e.data<float>()[u * features + k] = numerics::cuda_cosf(angle);
      e.data<float>()[u * features + half + k] = numerics::cuda_sinf(angle);
    }
  }
}

}  // namespace h3::kernels
