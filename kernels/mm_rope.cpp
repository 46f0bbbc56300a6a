#include "kernels/mm_rope.h"

#include <vector>

#include "kernels/checks.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

void rotate_head(const Bf16* x, const float* c, const float* s, std::int64_t half, Bf16* y) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float low = to_float(x[i]), high = to_float(x[i + half]);
    y[i] = to_bf16(round_bf16(low * c[i]) + round_bf16(-high * s[i]));
    y[i + half] = to_bf16(round_bf16(high * c[i + half]) + round_bf16(low * s[i + half]));
  }
}

}  // namespace

void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y) {
  constexpr const char* kRow = "mm_rope";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_rank(kRow, "x", x, 3);
  require_dtype(kRow, "cos", cos, {DType::fp32});
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(rotated % 2 == 0 && rotated <= width,
          "{}: {} rotated channels in heads of {}, expected an even part", kRow, rotated, width);
  require_tensor(kRow, "cos", cos, DType::fp32, {rows, rotated});
  require_tensor(kRow, "sin", sin, DType::fp32, {rows, rotated});
  require_tensor(kRow, "y", y, DType::bf16, x.shape());
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> c(static_cast<std::size_t>(rotated)), s(c.size());
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t i = 0; i < rotated; ++i) {
        c[i] = round_bf16(cos.data<float>()[row * rotated + i]);
        s[i] = round_bf16(sin.data<float>()[row * rotated + i]);
      }
      for (std::int64_t head = 0; head < heads; ++head) {
        const Bf16* in = x.data<Bf16>() + (row * heads + head) * width;
        Bf16* out = y.data<Bf16>() + (row * heads + head) * width;
        rotate_head(in, c.data(), s.data(), rotated / 2, out);
        for (std::int64_t i = rotated; i < width; ++i) out[i] = in[i];
      }
    }
  });
}

}  // namespace h3::kernels
