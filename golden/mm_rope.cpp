#include "golden/mm_rope.h"

#include "golden/bound.h"
#include "golden/values.h"

namespace h3::golden {

Tensor mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  require(x.shape().size() == 3, "golden mm_rope: x is {}, expected (rows, heads, head_dim)",
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], head_dim = x.shape()[2];
  const std::int64_t rotary = cos.cols(), half = rotary / 2;
  require_shape("mm_rope", "cos", cos, {rows, rotary});
  require_shape("mm_rope", "sin", sin, {rows, rotary});
  require(rotary % 2 == 0 && rotary <= head_dim,
          "golden mm_rope: {} rotary columns, expected an even count up to {}", rotary, head_dim);
  const Tensor values = fp32(x);
  Tensor y = values.clone();
  for_each_row(rows, [&](std::int64_t s) {
    const float *c = cos.data<float>() + s * rotary, *n = sin.data<float>() + s * rotary;
    for (std::int64_t head = 0; head < heads; ++head) {
      const float* in = values.data<float>() + (s * heads + head) * head_dim;
      float* out = y.data<float>() + (s * heads + head) * head_dim;
      for (std::int64_t i = 0; i < half; ++i) {
        const double first = in[i], second = in[i + half];
        out[i] = float(first * double(c[i]) - second * double(n[i]));
        out[i + half] = float(second * double(c[i + half]) + first * double(n[i + half]));
      }
    }
  });
  return y;
}

Tensor mm_rope_bound(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor y = mm_rope(x, cos, sin), values = fp32(x);
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
