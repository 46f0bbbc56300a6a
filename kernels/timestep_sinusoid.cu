#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/timestep_sinusoid.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kTimes = 32;  // distinct timesteps a launch carries as arguments
struct Times {
  float t[kTimes];
};

__global__ void features(const Times times, int half, float* e) {
  const float minus_ln_10000 = __uint_as_float(0xc1135d8eu);
  const int u = blockIdx.x;
  for (int k = threadIdx.x; k < half; k += blockDim.x) {
    const float frequency = expf(__fdiv_rn(minus_ln_10000 * float(k), float(half)));
    const float angle = times.t[u] * frequency;
    e[std::int64_t(u) * 2 * half + k] = cosf(angle);
    e[std::int64_t(u) * 2 * half + half + k] = sinf(angle);
  }
}

}  // namespace

void timestep_sinusoid(const Tensor& t, Tensor& e, Stream stream) {
  constexpr const char* kRow = "timestep_sinusoid";
  require(t.device() == Device::cpu && t.shape().size() == 1 && t.elements() > 0 && t.dtype() != DType::i64,
          "{}: t is {}, expected a row of timesteps on the CPU", kRow, to_string(t.shape()));
  const std::int64_t rows = t.elements(), width = e.cols();
  require(width % 2 == 0, "{}: e is {}, expected an even width", kRow, to_string(e.shape()));
  h3::cuda::require_tensor(kRow, "e", e, DType::fp32, {rows, width});
  for (std::int64_t u = 0; u < rows; ++u)
    require(t.at(u) >= 0 && t.at(u) <= 1, "{}: t[{}] is {}, expected 0..1", kRow, u, t.at(u));
  for (std::int64_t first = 0; first < rows; first += kTimes) {
    const std::int64_t count = std::min<std::int64_t>(kTimes, rows - first);
    Times times{};
    for (std::int64_t u = 0; u < count; ++u) times.t[u] = t.at(first + u);
    features<<<unsigned(count), 128, 0, stream>>>(times, int(width / 2), e.data<float>() + first * width);
    h3::cuda::check_launch(kRow);
  }
}

}  // namespace h3::kernels::cuda
