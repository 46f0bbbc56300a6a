#include "kernels/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/checks.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/rows.h"
#include "kernels/numerics/vector_clones.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

constexpr std::int64_t kVector = 4, kLanes = 32, kWarps = 4, kPartials = kLanes * kWarps;

H3_VECTOR_CLONES float sum_of_squares(const float* x, std::int64_t cols) {
  float partial[kPartials] = {};
  const std::int64_t vectors = cols / kVector;
  for (std::int64_t start = 0; start < vectors; start += kPartials) {
    const std::int64_t count = std::min(kPartials, vectors - start);
    const float* block = x + start * kVector;
    for (std::int64_t e = 0; e < kVector; ++e) {
      for (std::int64_t t = 0; t < count; ++t) {
        const float value = block[kVector * t + e];
        partial[t] = std::fma(value, value, partial[t]);
      }
    }
  }
  float warp[kWarps];
  for (std::int64_t w = 0; w < kWarps; ++w) {
    float* lane = partial + w * kLanes;
    for (std::int64_t step = kLanes / 2; step > 0; step /= 2) {
      for (std::int64_t l = 0; l < step; ++l) lane[l] += lane[l + step];
    }
    warp[w] = lane[0];
  }
  return (warp[0] + warp[2]) + (warp[1] + warp[3]);
}

// n before it is rounded to the type of x.
H3_VECTOR_CLONES void scale_row(const float* x, const float* weight, float r, std::int64_t cols, float* n) {
  for (std::int64_t c = 0; c < cols; ++c) n[c] = weight[c] * (r * x[c]);
}

void check_operands(const char* row, const Tensor& x, const Tensor& weight, float eps, const Tensor& y) {
  require_dtype(row, "x", x, {DType::bf16, DType::fp16, DType::fp32});
  require(x.cols() % kVector == 0, "{}: x is {}, expected an innermost extent that is a multiple of {}", row,
          to_string(x.shape()), kVector);
  require(eps >= 0 && std::isfinite(eps), "{}: eps is {}, expected a finite number >= 0", row, eps);
  require_tensor(row, "weight", weight, x.dtype(), {x.cols()});
  require_tensor(row, "y", y, x.dtype(), x.shape());
}

// Calls finish(row, n) with the normed row, rounded to the type of x but held in FP32.
template <class Finish>
void norm_rows(const Tensor& x, const Tensor& weight, float eps, const Finish& finish) {
  const std::int64_t cols = x.cols();
  std::vector<float> w(static_cast<std::size_t>(cols));
  numerics::widen(weight, 0, cols, w.data());
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / cols);
  parallel_for(0, x.rows(), grain, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> in(w.size()), n(w.size());
    for (std::int64_t s = first; s < last; ++s) {
      numerics::widen(x, s * cols, cols, in.data());
      const float mean = sum_of_squares(in.data(), cols) / float(cols);
      scale_row(in.data(), w.data(), numerics::rsqrt_approx(mean + eps), cols, n.data());
      numerics::round_to(x.dtype(), n.data(), cols);
      finish(s, n.data());
    }
  });
}

}  // namespace

void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y) {
  check_operands("rms_norm", x, weight, eps, y);
  const std::int64_t cols = x.cols();
  norm_rows(x, weight, eps, [&](std::int64_t s, const float* n) { numerics::narrow(n, s * cols, cols, y); });
}

void modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const TablePart& shift,
                        const TablePart& scale, const Tensor& index, Tensor& y) {
  constexpr const char* kRow = "modulated_rms_norm";
  check_operands(kRow, x, weight, eps, y);
  require_rank(kRow, "x", x, 2);
  const std::int64_t cols = x.cols();
  const DType dtype = x.dtype();
  require_part(kRow, "shift", shift, dtype, cols);
  require_part(kRow, "scale", scale, dtype, cols);
  const auto chosen =
      checked_index(kRow, "index", index, x.rows(), std::min(shift.table.rows(), scale.table.rows()));
  norm_rows(x, weight, eps, [&](std::int64_t s, float* y_row) {
    std::vector<float> modulation(static_cast<std::size_t>(cols));
    numerics::widen(scale.table, scale.offset(chosen[s], cols), cols, modulation.data());
    for (std::int64_t c = 0; c < cols; ++c) modulation[c] = 1.0f + modulation[c];
    numerics::round_to(dtype, modulation.data(), cols);
    for (std::int64_t c = 0; c < cols; ++c) y_row[c] = y_row[c] * modulation[c];
    numerics::round_to(dtype, y_row, cols);
    numerics::widen(shift.table, shift.offset(chosen[s], cols), cols, modulation.data());
    for (std::int64_t c = 0; c < cols; ++c) y_row[c] = y_row[c] + modulation[c];
    numerics::narrow(y_row, s * cols, cols, y);
  });
}

}  // namespace h3::kernels
