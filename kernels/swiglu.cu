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
    const dim3 blocks(grid, unsigned(std::min<std::int64_t>(8, (cols + h3::cuda::kRowThreads * width.value - 1) /
                                                                  (h3::cuda::kRowThreads * width.value))));
    gate_values<width.value><<<blocks, h3::cuda::kRowThreads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), cols, reinterpret_cast<Element*>(h.bytes()));
  });
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
