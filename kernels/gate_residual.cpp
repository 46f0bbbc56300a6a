#include "kernels/gate_residual.h"

#include "kernels/checks.h"
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
  require_dtype(kRow, "x", x, {DType::bf16});
  require_tensor(kRow, "branch", branch, DType::bf16, x.shape());
  require_tensor(kRow, "y", y, DType::bf16, x.shape());
  const Bf16 *in = x.data<Bf16>(), *b = branch.data<Bf16>();
  Bf16* out = y.data<Bf16>();
  parallel_for(0, x.elements(), 1 << 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) out[i] = to_bf16(to_float(in[i]) + to_float(b[i]));
  });
}

}  // namespace h3::kernels
