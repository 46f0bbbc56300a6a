#include "golden/swiglu.h"

#include "golden/bound.h"
#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor swiglu(const Tensor& x) {
  require(x.cols() % 2 == 0, "golden swiglu: {} columns, expected value and gate of equal width", x.cols());
  const std::int64_t width = x.cols() / 2;
  const Tensor values = fp32(x);
  Shape shape = x.shape();
  shape.back() = width;
  Tensor h(DType::fp32, shape);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const float *value = values.data<float>() + s * 2 * width, *gate = value + width;
    for (std::int64_t c = 0; c < width; ++c)
      h.data<float>()[s * width + c] = float(double(value[c]) * silu(double(gate[c])));
  });
  return h;
}

Tensor swiglu_bound(const Tensor& x) {
  const Tensor h = swiglu(x), values = fp32(x);
  const std::int64_t width = h.cols();
  return bound_of(h, [&](std::int64_t i) {
    const double value = values.at(i / width * 2 * width + i % width);
    return std::fabs(h.at(i)) * (2 * kBf16Unit + 16 * kFp32Unit) + std::fabs(value) * 0x1p-118;
  });
}

}  // namespace h3::golden
