#include <algorithm>
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/lora_linear.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;

template <int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    scale_elements(const Element* x, float factor, std::int64_t count, Element* y) {
  using Vec = h3::cuda::Vector<Element, V>;
  const std::int64_t i = (std::int64_t(blockIdx.x) * h3::cuda::kRowThreads + threadIdx.x) * V;
  if (i >= count) return;
  Vec v = Vec::load(x + i);
#pragma unroll
  for (int e = 0; e < V; ++e) v.value[e] = v.value[e] * factor;
  v.store(y + i);
}

// y = R(x * factor); y may be x.
void scaled(const char* row, const Tensor& x, float factor, Tensor& y, Stream stream) {
  const std::int64_t count = x.elements();
  h3::cuda::by_width(count, [&](auto width) {
    const std::int64_t once = h3::cuda::kRowThreads * width.value;
    const unsigned grid = h3::cuda::row_grid(row, (count + once - 1) / once);
    scale_elements<width.value><<<grid, h3::cuda::kRowThreads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), factor, count, reinterpret_cast<Element*>(y.bytes()));
  });
  h3::cuda::check_launch(row);
}

void check_operands(const char* row, const Tensor& x, const Tensor& weight, const LoraAdapter& adapter) {
  require(x.shape().size() == 2 && !weight.shape().empty() && !adapter.a.shape().empty(),
          "{}: x is {}, weight {}, a {}, expected matrices", row, to_string(x.shape()), to_string(weight.shape()),
          to_string(adapter.a.shape()));
  h3::cuda::require_tensor(row, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "weight", weight, DType::bf16, {weight.rows(), x.cols()});
  h3::cuda::require_tensor(row, "a", adapter.a, DType::bf16, {adapter.a.rows(), x.cols()});
  h3::cuda::require_tensor(row, "b", adapter.b, DType::bf16, {weight.rows(), adapter.a.rows()});
  require(std::isfinite(adapter.scale()), "{}: alpha is {}, expected a finite number", row, adapter.alpha);
}

}  // namespace

void lora_linear(const Tensor& x, const Tensor& weight, const Tensor* bias, const LoraAdapter& adapter, Tensor& h,
                 Tensor& branch, Tensor& y, Stream stream) {
  constexpr const char* kRow = "lora_linear";
  check_operands(kRow, x, weight, adapter);
  h3::cuda::require_tensor(kRow, "y", y, DType::bf16, {x.rows(), weight.rows()});
  h3::cuda::require_tensor(kRow, "h", h, DType::bf16, {x.rows(), adapter.a.rows()});
  h3::cuda::require_tensor(kRow, "branch", branch, DType::bf16, y.shape());
  linear(x, adapter.a, nullptr, h, stream);
  linear(h, adapter.b, nullptr, branch, stream);
  scaled(kRow, branch, adapter.scale(), branch, stream);
  linear(x, weight, bias, y, stream);
  residual(y, branch, y, stream);
}

void lora_linear_backward(const Tensor& x, const Tensor& weight, const LoraAdapter& adapter, const Tensor& dy, Tensor& h,
                          Tensor& dh, Tensor& g, Tensor& dbranch, Tensor& dx, Tensor& da, Tensor& db, Stream stream) {
  constexpr const char* kRow = "lora_linear_backward";
  check_operands(kRow, x, weight, adapter);
  const Shape inner = {x.rows(), adapter.a.rows()}, outer = {x.rows(), weight.rows()};
  h3::cuda::require_tensor(kRow, "dy", dy, DType::bf16, outer);
  h3::cuda::require_tensor(kRow, "h", h, DType::bf16, inner);
  h3::cuda::require_tensor(kRow, "dh", dh, DType::bf16, inner);
  h3::cuda::require_tensor(kRow, "g", g, DType::bf16, outer);
  h3::cuda::require_tensor(kRow, "dbranch", dbranch, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "dx", dx, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "da", da, DType::bf16, adapter.a.shape());
  h3::cuda::require_tensor(kRow, "db", db, DType::bf16, adapter.b.shape());
  linear(x, adapter.a, nullptr, h, stream);
  scaled(kRow, dy, adapter.scale(), g, stream);
  linear_weight_gradient(g, h, db, stream);
  linear_input_gradient(g, adapter.b, dh, stream);
  linear_weight_gradient(dh, x, da, stream);
  linear_input_gradient(dh, adapter.a, dbranch, stream);
  linear_input_gradient(dy, weight, dx, stream);
  residual(dx, dbranch, dx, stream);
}

}  // namespace h3::kernels::cuda
