#include <algorithm>
#include <numeric>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/mm_rope.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;
constexpr int kMaxThreads = 320;

// A block per packed row. A thread keeps to one part of a head, V channels of the lower half with their
// partners or V channels to copy, and walks the heads with it, so that it holds its cosines and sines in
// registers.
template <int V>
__global__ void __launch_bounds__(kMaxThreads)
    rotate_row(const Element* x, const float* cos, const float* sin, int heads, int width, int rotated,
               Element* y) {
  using Vec = h3::cuda::Vector<Element, V>;
  using h3::cuda::round_to;
  const std::int64_t row = blockIdx.x, base = row * heads * width;
  const int half = rotated / 2, pairs = half / V, items = pairs + (width - rotated) / V;
  const int part = threadIdx.x % items, step = blockDim.x / items;
  if (threadIdx.x >= step * items) return;
  if (part >= pairs) {
    const int channel = rotated + (part - pairs) * V;
#pragma unroll 4
    for (int head = threadIdx.x / items; head < heads; head += step) {
      const std::int64_t at = base + std::int64_t(head) * width + channel;
      Vec::load(x + at).store(y + at);
    }
    return;
  }
  const int i0 = part * V;
  float c[2][V], s[2][V];  // of the lower channels and of their partners
#pragma unroll
  for (int e = 0; e < V; ++e) {
    for (int p = 0; p < 2; ++p) {
      c[p][e] = round_to<Element>(cos[row * rotated + p * half + i0 + e]);
      s[p][e] = round_to<Element>(sin[row * rotated + p * half + i0 + e]);
    }
  }
#pragma unroll 2
  for (int head = threadIdx.x / items; head < heads; head += step) {
    const std::int64_t at = base + std::int64_t(head) * width + i0;
    const Vec low = Vec::load(x + at), high = Vec::load(x + at + half);
    Vec first, second;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      first.value[e] =
          round_to<Element>(low.value[e] * c[0][e]) + round_to<Element>(-high.value[e] * s[0][e]);
      second.value[e] =
          round_to<Element>(high.value[e] * c[1][e]) + round_to<Element>(low.value[e] * s[1][e]);
    }
    first.store(y + at);
    second.store(y + at + half);
  }
}

// Threads of a block: whole walks over the parts of a head, as many at once as divide the heads evenly.
int block_threads(int heads, int items) {
  int walks = std::min(heads, kMaxThreads / items);
  for (int w = walks; w > walks / 2; --w) {
    if (heads % w == 0) return w * items;
  }
  return walks * items;
}

}  // namespace

void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y, Stream stream) {
  constexpr const char* kRow = "mm_rope";
  require(x.shape().size() == 3, "{}: x is {}, expected (rows, heads, channels)", kRow, to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(
      rotated % 2 == 0 && rotated <= width && width <= kMaxThreads && heads * width < (std::int64_t(1) << 31),
      "{}: {} rotated channels in {} heads of {}, expected an even part of at most {}", kRow, rotated, heads,
      width, kMaxThreads);
  h3::cuda::require_tensor(kRow, "x", x, DType::bf16, x.shape());
  h3::cuda::require_tensor(kRow, "cos", cos, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(kRow, "sin", sin, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(kRow, "y", y, DType::bf16, x.shape());
  const unsigned grid = h3::cuda::row_grid(kRow, rows);
  h3::cuda::by_width(std::gcd(std::gcd(rotated / 2, width), width - rotated), [&](auto w) {
    const int items = int(rotated / 2 + width - rotated) / w.value;
    rotate_row<w.value><<<grid, block_threads(int(heads), items), 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), cos.data<float>(), sin.data<float>(), int(heads),
        int(width), int(rotated), reinterpret_cast<Element*>(y.bytes()));
  });
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
