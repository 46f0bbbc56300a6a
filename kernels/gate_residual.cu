#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/gate_residual.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;

// gate null: the refiner's plain residual.
template <int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    add_branch(const Element* x, const Element* branch, const Element* gate, std::int64_t table_cols,
               const std::int64_t* index, std::int64_t cols, Element* y) {
  using Vec = h3::cuda::Vector<Element, V>;
  const std::int64_t row = blockIdx.x, base = row * cols;
  const Element* g = gate ? gate + index[row] * table_cols : nullptr;
  for (std::int64_t c = std::int64_t(threadIdx.x) * V; c < cols; c += h3::cuda::kRowThreads * V) {
    const Vec in = Vec::load(x + base + c);
    Vec b = Vec::load(branch + base + c), out;
    if (g != nullptr) {
      const Vec factor = Vec::load(g + c);
#pragma unroll
      for (int i = 0; i < V; ++i) b.value[i] = h3::cuda::round_to<Element>(factor.value[i] * b.value[i]);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) out.value[i] = in.value[i] + b.value[i];
    out.store(y + base + c);
  }
}

void run(const char* row, const Tensor& x, const Tensor& branch, const Element* gate, std::int64_t table_cols,
         const std::int64_t* index, Tensor& y, Stream stream) {
  require(x.shape().size() == 2, "{}: x is {}, expected 2 extents", row, to_string(x.shape()));
  h3::cuda::require_tensor(row, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "branch", branch, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "y", y, DType::bf16, x.shape());
  const auto words = [](const Tensor& t) { return reinterpret_cast<const Element*>(t.bytes()); };
  const unsigned grid = h3::cuda::row_grid(row, x.shape()[0]);
  h3::cuda::by_width(x.cols(), [&](auto width) {
    add_branch<width.value><<<grid, h3::cuda::kRowThreads, 0, stream>>>(
        words(x), words(branch), gate, table_cols, index, x.cols(), reinterpret_cast<Element*>(y.bytes()));
  });
  h3::cuda::check_launch(row);
}

}  // namespace

void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate, const h3::cuda::RowIndex& index, Tensor& y,
                   Stream stream) {
  constexpr const char* kRow = "gate_residual";
  require_part(kRow, "gate", gate, DType::bf16, x.cols(), index);
  require(index.rows() == x.shape()[0], "{}: {} indices for x {}", kRow, index.rows(), to_string(x.shape()));
  run(kRow, x, branch, reinterpret_cast<const Element*>(gate.table.bytes()) + gate.offset(0, x.cols()), gate.table.cols(),
      index.data(), y, stream);
}

void residual(const Tensor& x, const Tensor& branch, Tensor& y, Stream stream) {
  run("residual", x, branch, nullptr, 0, nullptr, y, stream);
}

}  // namespace h3::kernels::cuda
