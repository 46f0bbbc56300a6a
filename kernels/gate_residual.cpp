#include "kernels/gate_residual.h"

#include "kernels/checks.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/rows.h"
#include "model/parallel.h"

namespace h3::kernels {

void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const Tensor& index,
                   Tensor& y) {
  constexpr const char* kRow = "gate_residual";
  require_dtype(kRow, "x", x, {DType::bf16});
  require_rank(kRow, "x", x, 2);
  const std::int64_t rows = x.shape()[0], cols = x.cols();
  require_tensor(kRow, "branch", branch, DType::bf16, x.shape());
  require_part(kRow, "gate", gate, DType::bf16, cols);
  const auto chosen = checked_index(kRow, "index", index, rows, gate.table.rows());
  require_tensor(kRow, "y", y, DType::bf16, x.shape());
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      const Bf16 *in = x.data<Bf16>() + s * cols, *b = branch.data<Bf16>() + s * cols;
      const Bf16* g = gate.table.data<Bf16>() + gate.offset(chosen[s], cols);
      Bf16* out = y.data<Bf16>() + s * cols;
      for (std::int64_t c = 0; c < cols; ++c) {
        out[c] = to_bf16(to_float(in[c]) + round_bf16(to_float(g[c]) * to_float(b[c])));
      }
    }
  });
}

void residual(const Tensor& x, const Tensor& branch, Tensor& y) {
  constexpr const char* kRow = "residual";
  require_dtype(kRow, "x", x, {DType::bf16, DType::fp32});
  require_tensor(kRow, "branch", branch, x.dtype(), x.shape());
  require_tensor(kRow, "y", y, x.dtype(), x.shape());
  const auto add = [&](const auto* in, const auto* b, auto* out, auto sum) {
    parallel_for(0, x.elements(), 1 << 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) out[i] = sum(in[i], b[i]);
    });
  };
  if (x.dtype() == DType::fp32)
    add(x.data<float>(), branch.data<float>(), y.data<float>(), [](float a, float b) { return a + b; });
  else
    add(x.data<Bf16>(), branch.data<Bf16>(), y.data<Bf16>(),
        [](Bf16 a, Bf16 b) { return to_bf16(to_float(a) + to_float(b)); });
}

void gate_residual_backward(const Tensor& branch, const TablePart& gate, const Tensor& index,
                            const Tensor& dy, Tensor& dbranch, TablePart dgate) {
  constexpr const char* kRow = "gate_residual_backward";
  require_dtype(kRow, "branch", branch, {DType::bf16});
  require_rank(kRow, "branch", branch, 2);
  const std::int64_t rows = branch.shape()[0], cols = branch.cols();
  require_part(kRow, "gate", gate, DType::bf16, cols);
  const auto chosen = checked_index(kRow, "index", index, rows, gate.table.rows());
  require_tensor(kRow, "dy", dy, DType::bf16, branch.shape());
  require_tensor(kRow, "dbranch", dbranch, DType::bf16, branch.shape());
  require_part_gradient(kRow, "dgate", dgate, DType::bf16, cols, gate.table.rows());
  const Bf16 *d = dy.data<Bf16>(), *b = branch.data<Bf16>();
  parallel_for(0, rows, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      const Bf16* g = gate.table.data<Bf16>() + gate.offset(chosen[s], cols);
      Bf16* out = dbranch.data<Bf16>() + s * cols;
      for (std::int64_t c = 0; c < cols; ++c) out[c] = to_bf16(to_float(g[c]) * to_float(d[s * cols + c]));
    }
  });
  numerics::sum_rows(
      numerics::segments_of(chosen, gate.table.rows()), cols,
      [&](std::int64_t s, std::int64_t first, std::int64_t count, float* terms) {
        const std::int64_t at = s * cols + first;
        for (std::int64_t c = 0; c < count; ++c)
          terms[c] = round_bf16(to_float(d[at + c]) * to_float(b[at + c]));
      },
      [&](std::int64_t e, std::int64_t first, std::int64_t count, const float* sum) {
        numerics::narrow(sum, dgate.offset(e, cols) + first, count, dgate.table);
      });
}

}  // namespace h3::kernels
