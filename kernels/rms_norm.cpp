#include "kernels/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/checks.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/rows.h"
#include "kernels/numerics/vector_clones.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

constexpr std::int64_t kVector = 4, kLanes = 32, kWarps = 4, kPartials = kLanes * kWarps;

// Warps of 32 partials, halved inside each; changes `partial`.
float tree(float* partial) {
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
  return tree(partial);
}

// The sum over c of dy w x r.
H3_VECTOR_CLONES float sum_of_products(const float* dy, const float* weight, const float* x, float r,
                                       std::int64_t cols) {
  float partial[kPartials] = {};
  const std::int64_t vectors = cols / kVector;
  for (std::int64_t start = 0; start < vectors; start += kPartials) {
    const std::int64_t count = std::min(kPartials, vectors - start), base = start * kVector;
    for (std::int64_t e = 0; e < kVector; ++e) {
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t c = base + kVector * t + e;
        partial[t] = std::fma(r, (dy[c] * weight[c]) * x[c], partial[t]);
      }
    }
  }
  return tree(partial);
}

H3_VECTOR_CLONES void input_gradient(const float* dy, const float* weight, const float* x, float r, float sum,
                                     std::int64_t cols, float* dx) {
  const float width = float(cols), scale = (1.0f / width) * r;
  for (std::int64_t c = 0; c < cols; ++c)
    dx[c] = scale * std::fma(dy[c], width * weight[c], -((r * x[c]) * sum));
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

// ---- backward

namespace {

void check_gradients(const char* row, const Tensor& x, const Tensor& weight, float eps, const Tensor& dy,
                     const Tensor& dx, const Tensor& dweight) {
  check_operands(row, x, weight, eps, x);
  require_tensor(row, "dy", dy, x.dtype(), x.shape());
  require_tensor(row, "dx", dx, x.dtype(), x.shape());
  require_tensor(row, "dweight", dweight, x.dtype(), {x.cols()});
}

// dx from the gradient of the norm, which norm_gradient(row, first, count, dn) gives; returns r of every row.
template <class NormGradient>
std::vector<float> input_gradients(const Tensor& x, const Tensor& weight, float eps,
                                   const NormGradient& norm_gradient, Tensor& dx) {
  const std::int64_t cols = x.cols();
  std::vector<float> roots(static_cast<std::size_t>(x.rows())), w(static_cast<std::size_t>(cols));
  numerics::widen(weight, 0, cols, w.data());
  parallel_for(
      0, x.rows(), std::max<std::int64_t>(1, 32768 / cols), [&](std::int64_t first, std::int64_t last) {
        std::vector<float> in(w.size()), dn(w.size());
        for (std::int64_t s = first; s < last; ++s) {
          numerics::widen(x, s * cols, cols, in.data());
          norm_gradient(s, 0, cols, dn.data());
          const float r = numerics::rsqrt_approx(sum_of_squares(in.data(), cols) / float(cols) + eps);
          const float sum = sum_of_products(dn.data(), w.data(), in.data(), r, cols);
          input_gradient(dn.data(), w.data(), in.data(), r, sum, cols, dn.data());
          numerics::narrow(dn.data(), s * cols, cols, dx);
          roots[s] = r;
        }
      });
  return roots;
}

}  // namespace

void rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                       Tensor& dweight) {
  check_gradients("rms_norm_backward", x, weight, eps, dy, dx, dweight);
  const std::int64_t cols = x.cols();
  const auto norm_gradient = [&](std::int64_t s, std::int64_t first, std::int64_t count, float* dn) {
    numerics::widen(dy, s * cols + first, count, dn);
  };
  const auto roots = input_gradients(x, weight, eps, norm_gradient, dx);
  numerics::sum_rows(
      numerics::one_segment(x.rows()), cols,
      [&](std::int64_t s, std::int64_t first, std::int64_t count, float* terms) {
        std::vector<float> in(static_cast<std::size_t>(count));
        numerics::widen(x, s * cols + first, count, in.data());
        norm_gradient(s, first, count, terms);
        for (std::int64_t c = 0; c < count; ++c) terms[c] = (terms[c] * in[c]) * roots[s];
      },
      [&](std::int64_t, std::int64_t first, std::int64_t count, const float* sum) {
        numerics::narrow(sum, first, count, dweight);
      });
}

void modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const TablePart& scale,
                                 const Tensor& index, const Tensor& dy, Tensor& dx, Tensor& dweight,
                                 TablePart dshift, TablePart dscale) {
  constexpr const char* kRow = "modulated_rms_norm_backward";
  check_gradients(kRow, x, weight, eps, dy, dx, dweight);
  require_rank(kRow, "x", x, 2);
  const std::int64_t cols = x.cols(), table_rows = scale.table.rows();
  const DType dtype = x.dtype();
  require_part(kRow, "scale", scale, dtype, cols);
  const auto chosen = checked_index(kRow, "index", index, x.rows(), table_rows);
  require_part_gradient(kRow, "dshift", dshift, dtype, cols, table_rows);
  require_part_gradient(kRow, "dscale", dscale, dtype, cols, table_rows);

  // dn = R(dy * R(1 + scale))
  const auto norm_gradient = [&](std::int64_t s, std::int64_t first, std::int64_t count, float* dn) {
    std::vector<float> d(static_cast<std::size_t>(count));
    numerics::widen(scale.table, scale.offset(chosen[s], cols) + first, count, dn);
    for (std::int64_t c = 0; c < count; ++c) dn[c] = 1.0f + dn[c];
    numerics::round_to(dtype, dn, count);
    numerics::widen(dy, s * cols + first, count, d.data());
    for (std::int64_t c = 0; c < count; ++c) dn[c] = d[c] * dn[c];
    numerics::round_to(dtype, dn, count);
  };
  const auto roots = input_gradients(x, weight, eps, norm_gradient, dx);

  const numerics::Segments segments = numerics::segments_of(chosen, table_rows);
  parallel_for(0, cols, 256, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t count = last - first;
    numerics::RowSum shift_sum(count), scale_sum(count), weight_sum(count);
    std::vector<float> in(static_cast<std::size_t>(count)), d(in.size()), w(in.size()), terms(in.size());
    numerics::widen(weight, first, count, w.data());
    for (std::int64_t e = 0; e < segments.count(); ++e) {
      for (const std::int64_t s : segments.of(e)) {
        numerics::widen(x, s * cols + first, count, in.data());
        numerics::widen(dy, s * cols + first, count, d.data());
        shift_sum.add(d.data());
        scale_row(in.data(), w.data(), roots[s], count, terms.data());
        numerics::round_to(dtype, terms.data(), count);
        for (std::int64_t c = 0; c < count; ++c) terms[c] = d[c] * terms[c];
        numerics::round_to(dtype, terms.data(), count);
        scale_sum.add(terms.data());
        norm_gradient(s, first, count, terms.data());
        for (std::int64_t c = 0; c < count; ++c) terms[c] = (terms[c] * in[c]) * roots[s];
        weight_sum.add(terms.data());
      }
      weight_sum.end_run();
      shift_sum.finish(terms.data());
      numerics::narrow(terms.data(), dshift.offset(e, cols) + first, count, dshift.table);
      scale_sum.finish(terms.data());
      numerics::narrow(terms.data(), dscale.offset(e, cols) + first, count, dscale.table);
    }
    weight_sum.finish(terms.data());
    numerics::narrow(terms.data(), first, count, dweight);
  });
}

}  // namespace h3::kernels
