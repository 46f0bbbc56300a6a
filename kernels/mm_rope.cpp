#include "kernels/mm_rope.h"

#include <vector>

#include "kernels/checks.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

using Rotation = void (*)(const Bf16* x, const float* c, const float* s, std::int64_t half, Bf16* y);

void rotate_head(const Bf16* x, const float* c, const float* s, std::int64_t half, Bf16* y) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float low = to_float(x[i]), high = to_float(x[i + half]);
    y[i] = to_bf16(round_bf16(low * c[i]) + round_bf16(-high * s[i]));
    y[i + half] = to_bf16(round_bf16(high * c[i + half]) + round_bf16(low * s[i + half]));
  }
}

void rotate_head_back(const Bf16* dy, const float* c, const float* s, std::int64_t half, Bf16* dx) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float low = to_float(dy[i]), high = to_float(dy[i + half]);
    dx[i] = to_bf16(round_bf16(low * c[i]) + round_bf16(high * s[i + half]));
    dx[i + half] = to_bf16(round_bf16(high * c[i + half]) + round_bf16(-low * s[i]));
  }
}

void rotate(const char* row, const char* from, const Tensor& x, const Tensor& cos, const Tensor& sin,
            const char* to, Tensor& y, Rotation rotation) {
  require_dtype(row, from, x, {DType::bf16});
  require_rank(row, from, x, 3);
  require_dtype(row, "cos", cos, {DType::fp32});
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(rotated % 2 == 0 && rotated <= width,
          "{}: {} rotated channels in heads of {}, expected an even part", row, rotated, width);
  require_tensor(row, "cos", cos, DType::fp32, {rows, rotated});
  require_tensor(row, "sin", sin, DType::fp32, {rows, rotated});
  require_tensor(row, to, y, DType::bf16, x.shape());
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> c(static_cast<std::size_t>(rotated)), s(c.size());
    for (std::int64_t at = first; at < last; ++at) {
      for (std::int64_t i = 0; i < rotated; ++i) {
        c[i] = round_bf16(cos.data<float>()[at * rotated + i]);
        s[i] = round_bf16(sin.data<float>()[at * rotated + i]);
      }
      for (std::int64_t head = 0; head < heads; ++head) {
        const Bf16* in = x.data<Bf16>() + (at * heads + head) * width;
        Bf16* out = y.data<Bf16>() + (at * heads + head) * width;
        rotation(in, c.data(), s.data(), rotated / 2, out);
        for (std::int64_t i = rotated; i < width; ++i) out[i] = in[i];
      }
    }
  });
}

}  // namespace

void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y) {
  rotate("mm_rope", "x", x, cos, sin, "y", y, rotate_head);
}

void mm_rope_backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, Tensor& dx) {
  rotate("mm_rope_backward", "dy", dy, cos, sin, "dx", dx, rotate_head_back);
}

}  // namespace h3::kernels
