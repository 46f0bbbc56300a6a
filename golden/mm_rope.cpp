#include "golden/mm_rope.h"

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

// rotate(first, second, cos, sin) -> the two of a pair; cos and sin start at the first one's column, the
// second's is `half` further.
template <class Rotate>
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, const Rotate& rotate) {
  require(x.shape().size() == 3, "golden mm_rope: x is {}, expected (rows, heads, head_dim)",
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], head_dim = x.shape()[2];
  const std::int64_t rotary = cos.cols(), half = rotary / 2;
  require_shape("mm_rope", "cos", cos, {rows, rotary});
  require_shape("mm_rope", "sin", sin, {rows, rotary});
  require(rotary % 2 == 0 && rotary <= head_dim,
          "golden mm_rope: {} rotary columns, expected an even count up to {}", rotary, head_dim);
  const Tensor values = widened(x);
  Tensor y = values.clone();
  const Store out(y);
  for_each_row(rows, [&](std::int64_t s) {
    const Reals c = Reals(cos) + s * rotary, n = Reals(sin) + s * rotary;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t at = (s * heads + head) * head_dim;
      const Reals in = Reals(values) + at;
      for (std::int64_t i = 0; i < half; ++i) {
        const auto [first, second] = rotate(in[i], in[i + half], c + i, n + i);
        out.set(at + i, first);
        out.set(at + i + half, second);
      }
    }
  });
  return y;
}

}  // namespace

Tensor mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const std::int64_t half = cos.cols() / 2;
  return rotated(x, cos, sin, [&](double first, double second, const Reals& c, const Reals& n) {
    return std::pair(first * c[0] - second * n[0], second * c[half] + first * n[half]);
  });
}

Tensor mm_rope_backward(const Tensor& gradient, const Tensor& cos, const Tensor& sin) {
  const std::int64_t half = cos.cols() / 2;
  return rotated(gradient, cos, sin, [&](double first, double second, const Reals& c, const Reals& n) {
    return std::pair(first * c[0] + second * n[half], second * c[half] - first * n[0]);
  });
}

Tensor mm_rope_bound(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor y = mm_rope(x, cos, sin), values = widened(x);
  const std::int64_t head_dim = x.shape()[2], per_row = x.shape()[1] * head_dim, rotary = cos.cols(),
                     half = rotary / 2;
  return bound_of(y, [&](std::int64_t i) {
    const std::int64_t s = i / per_row, c = i % head_dim;
    if (c >= rotary) return 0.0;
    const double own = values.at(i), partner = values.at(c < half ? i + half : i - half);
    const double products =
        std::fabs(own * cos.at(s * rotary + c)) + std::fabs(partner * sin.at(s * rotary + c));
    return 2 * kBf16Unit * products + kBf16Unit * std::fabs(y.at(i));
  });
}

}  // namespace h3::golden
