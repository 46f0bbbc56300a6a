#include "kernels/fp32_projection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/checks.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/rows.h"
#include "kernels/numerics/vector_clones.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

// Neighbouring outputs of one row advance together; each is its own chain.
constexpr std::int64_t kOutputs = 64;

// `panel` holds kOutputs weights per k, K of them.
H3_VECTOR_CLONES void project_row(const float* x, const float* panel, std::int64_t depth, float* sums) {
  float chain[kOutputs] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* w = panel + k * kOutputs;
    for (std::int64_t n = 0; n < kOutputs; ++n) chain[n] = std::fma(x[k], w[n], chain[n]);
  }
  std::copy_n(chain, kOutputs, sums);
}

// The next step of the chains of a row of outputs.
H3_VECTOR_CLONES void step(float factor, const float* x, std::int64_t count, float* chain) {
  for (std::int64_t i = 0; i < count; ++i) chain[i] = std::fma(factor, x[i], chain[i]);
}

// chains[c] = the sum over k < depth of factor(c, k) * x(k)[i], i < width: a chain per run of kFp32Run steps,
// the runs' sums one after the other.
template <class Factor, class Terms>
void run_chains(std::int64_t count, std::int64_t depth, std::int64_t width, const Factor& factor,
                const Terms& terms, float* chains) {
  std::vector<float> of_run(std::size_t(count * width));
  std::fill_n(chains, count * width, -0.0f);  // -0 + x is x for every x
  for (std::int64_t start = 0; start < depth; start += kFp32Run) {
    std::ranges::fill(of_run, 0.0f);
    for (std::int64_t k = start; k < std::min(start + kFp32Run, depth); ++k) {
      const float* x = terms(k);
      for (std::int64_t c = 0; c < count; ++c) step(factor(c, k), x, width, of_run.data() + c * width);
    }
    for (std::int64_t i = 0; i < count * width; ++i) chains[i] += of_run[std::size_t(i)];
  }
}

}  // namespace

void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  constexpr const char* kRow = "fp32_projection";
  require_dtype(kRow, "x", x, {DType::fp32, DType::bf16});
  require_rank(kRow, "x", x, 2);
  require_dtype(kRow, "weight", weight, {DType::fp32});
  require_rank(kRow, "weight", weight, 2);
  const std::int64_t rows = x.rows(), depth = x.cols(), outputs = weight.shape()[0];
  require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  require_tensor(kRow, "bias", bias, DType::fp32, {outputs});
  require_tensor(kRow, "y", y, DType::fp32, {rows, outputs});

  const std::int64_t panels = (outputs + kOutputs - 1) / kOutputs;
  std::vector<float> packed(static_cast<std::size_t>(panels * depth * kOutputs));  // zero beyond the outputs
  for (std::int64_t n = 0; n < outputs; ++n) {
    float* panel = packed.data() + n / kOutputs * depth * kOutputs + n % kOutputs;
    for (std::int64_t k = 0; k < depth; ++k) panel[k * kOutputs] = weight.data<float>()[n * depth + k];
  }
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> in(static_cast<std::size_t>((last - first) * depth));
    numerics::widen(x, first * depth, (last - first) * depth, in.data());
    float sums[kOutputs];
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t base = p * kOutputs, count = std::min(kOutputs, outputs - base);
      for (std::int64_t s = first; s < last; ++s) {
        project_row(in.data() + (s - first) * depth, packed.data() + p * depth * kOutputs, depth, sums);
        for (std::int64_t n = 0; n < count; ++n) {
          y.data<float>()[s * outputs + base + n] = sums[n] + bias.data<float>()[base + n];
        }
      }
    }
  });
}

void fp32_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx) {
  constexpr const char* kRow = "fp32_input_gradient";
  require_dtype(kRow, "dy", dy, {DType::fp32});
  require_rank(kRow, "dy", dy, 2);
  require_dtype(kRow, "weight", weight, {DType::fp32});
  require_rank(kRow, "weight", weight, 2);
  const std::int64_t rows = dy.rows(), outputs = dy.cols(), depth = weight.cols();
  require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  require_tensor(kRow, "dx", dx, DType::fp32, {rows, depth});
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    run_chains(
        last - first, outputs, depth,
        [&](std::int64_t s, std::int64_t n) { return dy.data<float>()[(first + s) * outputs + n]; },
        [&](std::int64_t n) { return weight.data<float>() + n * depth; }, dx.data<float>() + first * depth);
  });
}

void fp32_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight) {
  constexpr const char* kRow = "fp32_weight_gradient";
  require_dtype(kRow, "dy", dy, {DType::fp32});
  require_rank(kRow, "dy", dy, 2);
  require_dtype(kRow, "x", x, {DType::fp32, DType::bf16});
  require_rank(kRow, "x", x, 2);
  const std::int64_t rows = dy.rows(), outputs = dy.cols(), depth = x.cols();
  require_tensor(kRow, "x", x, x.dtype(), {rows, depth});
  require_tensor(kRow, "dweight", dweight, DType::fp32, {outputs, depth});
  parallel_for(0, outputs, 16, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> in(static_cast<std::size_t>(depth));
    run_chains(
        last - first, rows, depth,
        [&](std::int64_t n, std::int64_t s) { return dy.data<float>()[s * outputs + first + n]; },
        [&](std::int64_t s) {
          numerics::widen(x, s * depth, depth, in.data());
          return in.data();
        },
        dweight.data<float>() + first * depth);
  });
}

void fp32_bias_gradient(const Tensor& dy, Tensor& dbias) {
  constexpr const char* kRow = "fp32_bias_gradient";
  require_dtype(kRow, "dy", dy, {DType::fp32});
  require_rank(kRow, "dy", dy, 2);
  require_tensor(kRow, "dbias", dbias, DType::fp32, {dy.cols()});
  numerics::sum_rows(
      numerics::one_segment(dy.rows()), dy.cols(),
      [&](std::int64_t s, std::int64_t first, std::int64_t count, float* terms) {
        numerics::widen(dy, s * dy.cols() + first, count, terms);
      },
      [&](std::int64_t, std::int64_t first, std::int64_t count, const float* sum) {
        numerics::narrow(sum, first, count, dbias);
      });
}

}  // namespace h3::kernels
