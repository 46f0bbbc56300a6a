#include <cmath>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/rotary_tables.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kMaxFrequencies = 64;
struct Frequencies {
  float inverse[kMaxFrequencies];
};

__global__ void tables(const double* positions, const Frequencies frequencies, int axis, std::int64_t count, float* cos,
                       float* sin) {
  const std::int64_t item = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= count) return;
  const int half = 3 * axis, i = int(item % half);
  const std::int64_t s = item / half, at = s * 2 * half + i;
  const float angle = __double2float_rn(positions[3 * s + i / axis]) * frequencies.inverse[i % axis];
  cos[at] = cos[at + half] = cosf(angle);
  sin[at] = sin[at + half] = sinf(angle);
}

}  // namespace

void rotary_tables(const Tensor& positions, double theta, Tensor& cos, Tensor& sin, Stream stream) {
  constexpr const char* kRow = "rotary_tables";
  require(positions.device() == Device::cpu && positions.dtype() == DType::fp64 && positions.shape().size() == 2 &&
              positions.cols() == 3 && positions.elements() > 0,
          "{}: positions are {} {}, expected fp64 (rows, 3) on the CPU", kRow, name_of(positions.dtype()),
          to_string(positions.shape()));
  const std::int64_t rows = positions.shape()[0], cols = cos.cols(), axis = cols / 6;
  require(theta > 0 && axis > 0 && axis <= kMaxFrequencies && cols == 6 * axis,
          "{}: theta {} and {} columns, expected a positive theta and 6 f columns, f at most {}", kRow, theta, cols,
          kMaxFrequencies);
  h3::cuda::require_tensor(kRow, "cos", cos, DType::fp32, {rows, cols});
  h3::cuda::require_tensor(kRow, "sin", sin, DType::fp32, {rows, cols});
  for (std::int64_t i = 0; i < 3 * rows; ++i)
    require(std::isfinite(float(positions.data<double>()[i])), "{}: positions[{}][{}] is {}, expected a finite number", kRow,
            i / 3, i % 3, positions.data<double>()[i]);
  Frequencies frequencies{};
  const std::vector<float> inverse = rotary_frequencies(axis, theta);
  std::copy(inverse.begin(), inverse.end(), frequencies.inverse);
  const Tensor on_device = h3::cuda::upload(positions);
  const std::int64_t count = rows * 3 * axis;
  tables<<<unsigned((count + 255) / 256), 256, 0, stream>>>(on_device.data<double>(), frequencies, int(axis), count,
                                                           cos.data<float>(), sin.data<float>());
  h3::cuda::check_launch(kRow);
  h3::cuda::synchronize(stream);  // the uploaded positions end with this call
}

}  // namespace h3::kernels::cuda
