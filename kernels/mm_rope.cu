#include <numeric>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/mm_rope.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;
constexpr int kMaxRotated = 256;

// A block per packed row; a work item is V channels of the lower half with their partners, or V channels to copy.
template <bool kBack, int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    rotate_row(const Element* x, const float* cos, const float* sin, int heads, int width, int rotated, Element* y) {
  using Vec = h3::cuda::Vector<Element, V>;
  using h3::cuda::round_to;
  __shared__ float c[kMaxRotated], s[kMaxRotated];
  const std::int64_t row = blockIdx.x, base = row * heads * width;
  for (int i = threadIdx.x; i < rotated; i += blockDim.x) {
    c[i] = round_to<Element>(cos[row * rotated + i]);
    s[i] = round_to<Element>(sin[row * rotated + i]);
  }
  __syncthreads();
  const int half = rotated / 2, pairs = half / V, items = pairs + (width - rotated) / V;
  for (int item = threadIdx.x; item < heads * items; item += blockDim.x) {
    const int head = item / items, part = item % items;
    const std::int64_t at = base + std::int64_t(head) * width;
    if (part >= pairs) {
      const int channel = rotated + (part - pairs) * V;
      Vec::load(x + at + channel).store(y + at + channel);
      continue;
    }
    const int i0 = part * V;
    const Vec low = Vec::load(x + at + i0), high = Vec::load(x + at + half + i0);
    Vec first, second;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const int i = i0 + e;
      const float from_high = kBack ? high.value[e] * s[half + i] : -high.value[e] * s[i];
      const float from_low = kBack ? -low.value[e] * s[i] : low.value[e] * s[half + i];
      first.value[e] = round_to<Element>(low.value[e] * c[i]) + round_to<Element>(from_high);
      second.value[e] = round_to<Element>(high.value[e] * c[half + i]) + round_to<Element>(from_low);
    }
    first.store(y + at + i0);
    second.store(y + at + half + i0);
  }
}

template <bool kBack>
void rotate(const char* row, const char* from, const Tensor& x, const Tensor& cos, const Tensor& sin, const char* to,
            Tensor& y, Stream stream) {
  require(x.shape().size() == 3, "{}: {} is {}, expected (rows, heads, channels)", row, from, to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(rotated % 2 == 0 && rotated <= width && rotated <= kMaxRotated && heads * width < (std::int64_t(1) << 31),
          "{}: {} rotated channels in {} heads of {}, expected an even part of at most {}", row, rotated, heads, width,
          kMaxRotated);
  h3::cuda::require_tensor(row, from, x, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "cos", cos, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, "sin", sin, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, to, y, DType::bf16, x.shape());
  const unsigned grid = h3::cuda::row_grid(row, rows);
  h3::cuda::by_width(std::gcd(std::gcd(rotated / 2, width), width - rotated), [&](auto w) {
    rotate_row<kBack, w.value><<<grid, h3::cuda::kRowThreads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), cos.data<float>(), sin.data<float>(), int(heads), int(width),
        int(rotated), reinterpret_cast<Element*>(y.bytes()));
  });
  h3::cuda::check_launch(row);
}

}  // namespace

void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y, Stream stream) {
  rotate<false>("mm_rope", "x", x, cos, sin, "y", y, stream);
}

void mm_rope_backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, Tensor& dx, Stream stream) {
  rotate<true>("mm_rope_backward", "dy", dy, cos, sin, "dx", dx, stream);
}

}  // namespace h3::kernels::cuda
