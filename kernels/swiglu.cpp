#include "kernels/swiglu.h"

#include <vector>

#include "kernels/checks.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/rows.h"
#include "model/parallel.h"

namespace h3::kernels {

void swiglu(const Tensor& x, Tensor& h) {
  constexpr const char* kRow = "swiglu";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_rank(kRow, "x", x, 2);
  const std::int64_t rows = x.shape()[0], cols = x.cols() / 2;
  require(x.cols() == 2 * cols, "{}: x is {}, expected an even width", kRow, to_string(x.shape()));
  require_tensor(kRow, "h", h, DType::bf16, {rows, cols});
  parallel_for(0, rows, 4, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> value(static_cast<std::size_t>(cols)), gate(value.size());
    for (std::int64_t s = first; s < last; ++s) {
      numerics::widen(x, s * 2 * cols, cols, value.data());
      numerics::widen(x, s * 2 * cols + cols, cols, gate.data());
      numerics::silu_fp32(gate.data(), gate.data(), gate.size());
      numerics::round_to(DType::bf16, gate.data(), cols);
      for (std::int64_t c = 0; c < cols; ++c) value[c] = value[c] * gate[c];
      numerics::narrow(value.data(), s * cols, cols, h);
    }
  });
}

void swiglu_backward(const Tensor& x, const Tensor& dh, Tensor& dx) {
  constexpr const char* kRow = "swiglu_backward";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_rank(kRow, "x", x, 2);
  const std::int64_t rows = x.shape()[0], cols = x.cols() / 2;
  require(x.cols() == 2 * cols, "{}: x is {}, expected an even width", kRow, to_string(x.shape()));
  require_tensor(kRow, "dh", dh, DType::bf16, {rows, cols});
  require_tensor(kRow, "dx", dx, DType::bf16, x.shape());
  parallel_for(0, rows, 4, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> value(static_cast<std::size_t>(cols)), gate(value.size()), d(value.size()),
        out(value.size());
    for (std::int64_t s = first; s < last; ++s) {
      numerics::widen(x, s * 2 * cols, cols, value.data());
      numerics::widen(x, s * 2 * cols + cols, cols, gate.data());
      numerics::widen(dh, s * cols, cols, d.data());
      numerics::silu_fp32(gate.data(), out.data(), out.size());
      numerics::round_to(DType::bf16, out.data(), cols);
      for (std::int64_t c = 0; c < cols; ++c) out[c] = d[c] * out[c];
      numerics::narrow(out.data(), s * 2 * cols, cols, dx);
      for (std::int64_t c = 0; c < cols; ++c) d[c] = d[c] * value[c];
      numerics::round_to(DType::bf16, d.data(), cols);
      numerics::silu_gradient_fp32(d.data(), gate.data(), out.data(), out.size());
      numerics::narrow(out.data(), s * 2 * cols + cols, cols, dx);
    }
  });
}

}  // namespace h3::kernels
