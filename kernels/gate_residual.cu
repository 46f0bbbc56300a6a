#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/row_sum.cuh"
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

__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    add_rows(const float* a, const float* b, std::int64_t cols, float* y) {
  const std::int64_t base = std::int64_t(blockIdx.x) * cols;
  for (std::int64_t c = threadIdx.x; c < cols; c += h3::cuda::kRowThreads)
    y[base + c] = __fadd_rn(a[base + c], b[base + c]);
}

void add_fp32(const Tensor& x, const Tensor& branch, Tensor& y, Stream stream) {
  constexpr const char* kRow = "residual";
  h3::cuda::require_tensor(kRow, "x", x, DType::fp32, x.shape());
  h3::cuda::require_tensor(kRow, "branch", branch, DType::fp32, x.shape());
  h3::cuda::require_tensor(kRow, "y", y, DType::fp32, x.shape());
  add_rows<<<h3::cuda::row_grid(kRow, x.rows()), h3::cuda::kRowThreads, 0, stream>>>(
      x.data<float>(), branch.data<float>(), x.cols(), y.data<float>());
  h3::cuda::check_launch(kRow);
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

// dbranch on the way, dy * branch as the terms of the gate's gradient.
template <int V>
struct GateTerms {
  static constexpr int kSums = 1;
  using Vec = h3::cuda::Vector<Element, V>;
  struct Loaded {
    typename Vec::Bits branch, dy;
  };

  const Element *branch, *gate, *dy;
  std::int64_t table_cols, cols;
  const std::int64_t* index;
  Element* dbranch;

  __device__ Vec start(std::int64_t row, std::int64_t column) const {
    return Vec::load(gate + index[row] * table_cols + column);
  }
  __device__ Loaded load(std::int64_t row, std::int64_t column) const {
    return {Vec::load_bits(branch + row * cols + column), Vec::load_bits(dy + row * cols + column)};
  }
  __device__ void of(std::int64_t row, std::int64_t column, const Vec& factor, const Loaded& loaded,
                     float (&term)[kSums][V]) const {
    const Vec b = Vec::of(loaded.branch), d = Vec::of(loaded.dy);
    Vec out;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      out.value[i] = factor.value[i] * d.value[i];
      term[0][i] = h3::cuda::round_to<Element>(d.value[i] * b.value[i]);
    }
    out.store(dbranch + row * cols + column);
  }
};

}  // namespace

void gate_residual(const Tensor& x, const Tensor& branch, const TablePart& gate,
                   const h3::cuda::RowIndex& index, Tensor& y, Stream stream) {
  constexpr const char* kRow = "gate_residual";
  require_part(kRow, "gate", gate, DType::bf16, x.cols(), index);
  require(index.rows() == x.shape()[0], "{}: {} indices for x {}", kRow, index.rows(), to_string(x.shape()));
  run(kRow, x, branch, reinterpret_cast<const Element*>(gate.table.bytes()) + gate.offset(0, x.cols()),
      gate.table.cols(), index.data(), y, stream);
}

void residual(const Tensor& x, const Tensor& branch, Tensor& y, Stream stream) {
  if (x.dtype() == DType::fp32) return add_fp32(x, branch, y, stream);
  run("residual", x, branch, nullptr, 0, nullptr, y, stream);
}

std::int64_t gate_residual_workspace(const h3::cuda::RowIndex& index, std::int64_t cols) {
  return index.runs() * cols;
}

void gate_residual_backward(const Tensor& branch, const TablePart& gate, const h3::cuda::RowIndex& index,
                            const Tensor& dy, Tensor& dbranch, TablePart dgate, Tensor& workspace,
                            Stream stream) {
  constexpr const char* kRow = "gate_residual_backward";
  require(branch.shape().size() == 2 && index.rows() == branch.shape()[0], "{}: {} indices for branch {}",
          kRow, index.rows(), to_string(branch.shape()));
  const std::int64_t cols = branch.cols();
  h3::cuda::require_tensor(kRow, "branch", branch, DType::bf16, branch.shape());
  h3::cuda::require_tensor(kRow, "dy", dy, DType::bf16, branch.shape());
  h3::cuda::require_tensor(kRow, "dbranch", dbranch, DType::bf16, branch.shape());
  require_part(kRow, "gate", gate, DType::bf16, cols, index);
  require_part_gradient(kRow, "dgate", dgate, DType::bf16, cols, index);
  h3::cuda::Workspace memory(kRow, workspace, gate_residual_workspace(index, cols));
  const h3::cuda::Runs runs = h3::cuda::runs_of(index);
  float* partial = memory.take(runs.count * cols);
  const auto words = [](const Tensor& t) { return reinterpret_cast<const Element*>(t.bytes()); };
  h3::cuda::by_width(cols, [&](auto width) {
    const GateTerms<width.value> terms{
        words(branch), words(gate.table) + gate.offset(0, cols),   words(dy), gate.table.cols(), cols,
        index.data(),  reinterpret_cast<Element*>(dbranch.bytes())};
    h3::cuda::launch_sum_runs<width.value>(kRow, terms, runs, cols, partial, stream);
  });
  h3::cuda::finish_sums(kRow, runs, cols, partial, DType::bf16, {h3::cuda::target_of(dgate, cols)}, stream);
}

}  // namespace h3::kernels::cuda
