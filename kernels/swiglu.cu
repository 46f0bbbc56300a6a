#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/swiglu.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;

template <int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads) gate_values(const Element* x, std::int64_t cols, Element* h) {
  using Vec = h3::cuda::Vector<Element, V>;
  const Element* row = x + std::int64_t(blockIdx.x) * 2 * cols;
  const std::int64_t step = std::int64_t(gridDim.y) * h3::cuda::kRowThreads * V;
  for (std::int64_t c = (std::int64_t(blockIdx.y) * h3::cuda::kRowThreads + threadIdx.x) * V; c < cols; c += step) {
    const Vec value = Vec::load(row + c), gate = Vec::load(row + cols + c);
    Vec out;
#pragma unroll
    for (int i = 0; i < V; ++i) out.value[i] = value.value[i] * h3::cuda::round_to<Element>(h3::cuda::silu(gate.value[i]));
    out.store(h + std::int64_t(blockIdx.x) * cols + c);
  }
}

template <int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    gate_gradients(const Element* x, const Element* dh, std::int64_t cols, Element* dx) {
  using Vec = h3::cuda::Vector<Element, V>;
  const std::int64_t row = std::int64_t(blockIdx.x) * 2 * cols;
  const std::int64_t step = std::int64_t(gridDim.y) * h3::cuda::kRowThreads * V;
  for (std::int64_t c = (std::int64_t(blockIdx.y) * h3::cuda::kRowThreads + threadIdx.x) * V; c < cols; c += step) {
    const Vec value = Vec::load(x + row + c), gate = Vec::load(x + row + cols + c), d = Vec::load(dh + row / 2 + c);
    Vec dvalue, dgate;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      dvalue.value[i] = d.value[i] * h3::cuda::round_to<Element>(h3::cuda::silu(gate.value[i]));
      dgate.value[i] =
          h3::cuda::silu_gradient(h3::cuda::round_to<Element>(d.value[i] * value.value[i]), gate.value[i]);
    }
    dvalue.store(dx + row + c);
    dgate.store(dx + row + cols + c);
  }
}

// A block of threads per row, up to eight of them where rows are wide.
dim3 blocks_of(unsigned rows, std::int64_t cols, int width) {
  const std::int64_t once = h3::cuda::kRowThreads * width;
  return {rows, unsigned(std::min<std::int64_t>(8, (cols + once - 1) / once))};
}

}  // namespace

void swiglu(const Tensor& x, Tensor& h, Stream stream) {
  constexpr const char* kRow = "swiglu";
  require(x.shape().size() == 2 && x.cols() % 2 == 0, "{}: x is {}, expected 2 extents and an even width", kRow,
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], cols = x.cols() / 2;
  h3::cuda::require_tensor(kRow, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "h", h, DType::bf16, {rows, cols});
  const unsigned grid = h3::cuda::row_grid(kRow, rows);
  h3::cuda::by_width(cols, [&](auto width) {
    gate_values<width.value><<<blocks_of(grid, cols, width.value), h3::cuda::kRowThreads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), cols, reinterpret_cast<Element*>(h.bytes()));
  });
  h3::cuda::check_launch(kRow);
}

void swiglu_backward(const Tensor& x, const Tensor& dh, Tensor& dx, Stream stream) {
  constexpr const char* kRow = "swiglu_backward";
  require(x.shape().size() == 2 && x.cols() % 2 == 0, "{}: x is {}, expected 2 extents and an even width", kRow,
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], cols = x.cols() / 2;
  h3::cuda::require_tensor(kRow, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "dh", dh, DType::bf16, {rows, cols});
  h3::cuda::require_tensor(kRow, "dx", dx, DType::bf16, x.shape());
  const unsigned grid = h3::cuda::row_grid(kRow, rows);
  h3::cuda::by_width(cols, [&](auto width) {
    gate_gradients<width.value><<<blocks_of(grid, cols, width.value), h3::cuda::kRowThreads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), reinterpret_cast<const Element*>(dh.bytes()), cols,
        reinterpret_cast<Element*>(dx.bytes()));
  });
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
