#include "kernels/timestep_mlp.h"

#include <algorithm>
#include <cmath>

#include "kernels/checks.h"
#include "kernels/fp32_projection.h"
#include "kernels/numerics/device_functions.h"
#include "kernels/numerics/vector_clones.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

constexpr std::int64_t kTile = 256, kPartials = 16;

H3_VECTOR_CLONES float fixed_order_dot(const float* x, const float* w, std::int64_t depth) {
  float total[kPartials] = {};
  for (std::int64_t start = 0; start < depth; start += kTile) {
    float partial[kPartials] = {};
    const std::int64_t end = std::min(depth, start + kTile), whole = end - (end - start) % kPartials;
    for (std::int64_t k = start; k < whole; k += kPartials) {
      for (std::int64_t p = 0; p < kPartials; ++p) partial[p] = std::fma(x[k + p], w[k + p], partial[p]);
    }
    for (std::int64_t k = whole; k < end; ++k) partial[k - whole] = std::fma(x[k], w[k], partial[k - whole]);
    for (std::int64_t p = 0; p < kPartials; ++p) total[p] = start == 0 ? partial[p] : total[p] + partial[p];
  }
  float sum = total[0];
  for (std::int64_t p = 1; p < kPartials; ++p) sum += total[p];
  return sum;
}

}  // namespace

void timestep_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  constexpr const char* kRow = "timestep_mlp";
  require_dtype(kRow, "x", x, {DType::fp32});
  require_rank(kRow, "x", x, 2);
  require_dtype(kRow, "weight", weight, {DType::fp32});
  require_rank(kRow, "weight", weight, 2);
  const std::int64_t rows = x.rows(), depth = x.cols(), outputs = weight.shape()[0];
  require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  require_tensor(kRow, "bias", bias, DType::fp32, {outputs});
  require_tensor(kRow, "y", y, DType::fp32, {rows, outputs});
  parallel_for(0, outputs, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      for (std::int64_t u = 0; u < rows; ++u) {
        const float sum =
            fixed_order_dot(x.data<float>() + u * depth, weight.data<float>() + n * depth, depth);
        y.data<float>()[u * outputs + n] = sum + bias.data<float>()[n];
      }
    }
  });
}

void timestep_mlp(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
                  Tensor& temb) {
  constexpr const char* kRow = "timestep_mlp";
  require_dtype(kRow, "e", e, {DType::fp32});
  require_rank(kRow, "e", e, 2);
  require_dtype(kRow, "b1", b1, {DType::fp32});
  require_dtype(kRow, "b2", b2, {DType::fp32});
  const std::int64_t rows = e.rows(), hidden = b1.elements(), outputs = b2.elements();
  require_tensor(kRow, "w1", w1, DType::fp32, {hidden, e.cols()});
  require_tensor(kRow, "w2", w2, DType::fp32, {outputs, hidden});
  require_tensor(kRow, "temb", temb, DType::fp32, {rows, outputs});
  Tensor inner(DType::fp32, {rows, hidden});
  timestep_linear(e, w1, b1, inner);
  numerics::silu_fp32(inner.data<float>(), inner.data<float>(), std::size_t(inner.elements()));
  timestep_linear(inner, w2, b2, temb);
}

void timestep_mlp_backward(const Tensor& e, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                           const Tensor& dtemb, Tensor& dw1, Tensor& db1, Tensor& dw2, Tensor& db2) {
  constexpr const char* kRow = "timestep_mlp_backward";
  require_dtype(kRow, "e", e, {DType::fp32});
  require_rank(kRow, "e", e, 2);
  require_dtype(kRow, "b1", b1, {DType::fp32});
  require_dtype(kRow, "w2", w2, {DType::fp32});
  const std::int64_t rows = e.rows(), hidden = b1.elements(), outputs = w2.rows();
  require_tensor(kRow, "w1", w1, DType::fp32, {hidden, e.cols()});
  require_tensor(kRow, "w2", w2, DType::fp32, {outputs, hidden});
  require_tensor(kRow, "dtemb", dtemb, DType::fp32, {rows, outputs});
  require_tensor(kRow, "dw1", dw1, DType::fp32, w1.shape());
  require_tensor(kRow, "db1", db1, DType::fp32, {hidden});
  require_tensor(kRow, "dw2", dw2, DType::fp32, w2.shape());
  require_tensor(kRow, "db2", db2, DType::fp32, {outputs});
  Tensor h(DType::fp32, {rows, hidden}), inner(DType::fp32, {rows, hidden}),
      dinner(DType::fp32, {rows, hidden});
  timestep_linear(e, w1, b1, h);
  const std::size_t count = std::size_t(h.elements());
  numerics::silu_fp32(h.data<float>(), inner.data<float>(), count);
  fp32_weight_gradient(dtemb, inner, dw2);
  fp32_bias_gradient(dtemb, db2);
  fp32_input_gradient(dtemb, w2, dinner);
  numerics::silu_gradient_fp32(dinner.data<float>(), h.data<float>(), dinner.data<float>(), count);
  fp32_weight_gradient(dinner, e, dw1);
  fp32_bias_gradient(dinner, db1);
}

}  // namespace h3::kernels
