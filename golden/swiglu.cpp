#include "golden/swiglu.h"

#include "golden/bound.h"
#include "golden/math.h"
#include "golden/values.h"

namespace h3::golden {

Tensor swiglu(const Tensor& x) {
  require(x.cols() % 2 == 0, "golden swiglu: {} columns, expected value and gate of equal width", x.cols());
  const std::int64_t width = x.cols() / 2;
  const Tensor values = widened(x);
  Shape shape = x.shape();
  shape.back() = width;
  Tensor h(border_of(x), shape);
  const Store out(h);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals value = Reals(values) + s * 2 * width, gate = value + width;
    for (std::int64_t c = 0; c < width; ++c) out.set(s * width + c, value[c] * silu(gate[c]));
  });
  return h;
}

Tensor swiglu_backward(const Tensor& x, const Tensor& gradient) {
  require(x.cols() % 2 == 0 && gradient.elements() == x.elements() / 2,
          "golden swiglu_backward: gradient {} for x {}, expected half its columns",
          to_string(gradient.shape()), to_string(x.shape()));
  const std::int64_t width = x.cols() / 2;
  const Tensor values = widened(x), gradients = widened(gradient);
  Tensor dx(border_of(x), x.shape());
  const Store out(dx);
  for_each_row(x.rows(), [&](std::int64_t s) {
    const Reals value = Reals(values) + s * 2 * width, gate = value + width,
                dh = Reals(gradients) + s * width;
    for (std::int64_t c = 0; c < width; ++c) {
      out.set(s * 2 * width + c, dh[c] * silu(gate[c]));
      out.set(s * 2 * width + width + c, dh[c] * value[c] * silu_derivative(gate[c]));
    }
  });
  return dx;
}

Tensor swiglu_bound(const Tensor& x) {
  const Tensor h = swiglu(x), values = widened(x);
  const std::int64_t width = h.cols();
  return bound_of(h, [&](std::int64_t i) {
    const double value = values.at(i / width * 2 * width + i % width);
    return std::fabs(h.at(i)) * (2 * kBf16Unit + 16 * kFp32Unit) + std::fabs(value) * 0x1p-118;
  });
}

}  // namespace h3::golden
