#include "kernels/lora_linear.h"

#include <cmath>

#include "kernels/checks.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

void check_operands(const char* row, const Tensor& x, const Tensor& weight, const LoraAdapter& adapter) {
  require_dtype(row, "x", x, {DType::bf16});
  require_rank(row, "x", x, 2);
  require_dtype(row, "weight", weight, {DType::bf16});
  require_tensor(row, "weight", weight, DType::bf16, {weight.rows(), x.cols()});
  require_dtype(row, "a", adapter.a, {DType::bf16});
  require_tensor(row, "a", adapter.a, DType::bf16, {adapter.a.rows(), x.cols()});
  require_tensor(row, "b", adapter.b, DType::bf16, {weight.rows(), adapter.a.rows()});
  require(std::isfinite(adapter.scale()), "{}: alpha is {}, expected a finite number", row, adapter.alpha);
}

// y = R(x * factor); y may be x.
void scaled(const Tensor& x, float factor, Tensor& y) {
  const Bf16* in = x.data<Bf16>();
  Bf16* out = y.data<Bf16>();
  parallel_for(0, x.elements(), 1 << 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) out[i] = to_bf16(to_float(in[i]) * factor);
  });
}

}  // namespace

void lora_linear(const Tensor& x, const Tensor& weight, const Tensor* bias, const LoraAdapter& adapter,
                 Tensor& y) {
  constexpr const char* kRow = "lora_linear";
  check_operands(kRow, x, weight, adapter);
  require_tensor(kRow, "y", y, DType::bf16, {x.rows(), weight.rows()});
  Tensor h(DType::bf16, {x.rows(), adapter.a.rows()}), branch(DType::bf16, y.shape());
  linear(x, adapter.a, nullptr, h);
  linear(h, adapter.b, nullptr, branch);
  scaled(branch, adapter.scale(), branch);
  linear(x, weight, bias, y);
  residual(y, branch, y);
}

void lora_linear_backward(const Tensor& x, const Tensor& weight, const LoraAdapter& adapter, const Tensor& dy,
                          Tensor& dx, Tensor& da, Tensor& db) {
  constexpr const char* kRow = "lora_linear_backward";
  check_operands(kRow, x, weight, adapter);
  require_tensor(kRow, "dy", dy, DType::bf16, {x.rows(), weight.rows()});
  require_tensor(kRow, "dx", dx, DType::bf16, x.shape());
  require_tensor(kRow, "da", da, DType::bf16, adapter.a.shape());
  require_tensor(kRow, "db", db, DType::bf16, adapter.b.shape());
  Tensor h(DType::bf16, {x.rows(), adapter.a.rows()}), dh(DType::bf16, h.shape()), g(DType::bf16, dy.shape()),
      dbranch(DType::bf16, x.shape());
  linear(x, adapter.a, nullptr, h);
  scaled(dy, adapter.scale(), g);
  linear_weight_gradient(g, h, db);
  linear_input_gradient(g, adapter.b, dh);
  linear_weight_gradient(dh, x, da);
  linear_input_gradient(dh, adapter.a, dbranch);
  linear_input_gradient(dy, weight, dx);
  residual(dx, dbranch, dx);
}

}  // namespace h3::kernels
