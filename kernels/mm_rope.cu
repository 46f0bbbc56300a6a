#include <algorithm>
#include <numeric>

#include "kernels/cuda/device.h"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/mm_rope.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;
constexpr int kThreads = 128,
              kAtOnce = 7;  // heads of a thread that are loaded before the first one is turned

// V angles, rounded.
template <int V>
__device__ h3::cuda::Packed<Element, V> angles(const float* from) {
  h3::cuda::Vector<Element, V> v;
#pragma unroll
  for (int e = 0; e < V; ++e) v.value[e] = from[e];
  return h3::cuda::Packed<Element, V>::rounded(v);
}

// A block per packed row. A thread has V channels of every blockDim.y-th head, and so its angles once.
// Turning back takes the sines of the partner, with the other sign.
template <bool kBack, int V>
__global__ void __launch_bounds__(kThreads) rotate_row(const Element* x, const float* cos, const float* sin,
                                                       int heads, int width, int rotated, Element* y) {
  using Own = h3::cuda::Packed<Element, V>;
  const std::int64_t row = blockIdx.x;
  const int channel = threadIdx.x * V, half = rotated / 2;
  const bool low = channel < half, rotates = channel < rotated;
  const int partner = low ? half : -half;
  Own c, s;
  if (rotates) {
    c = angles<V>(cos + row * rotated + channel);
    s = angles<V>(sin + row * rotated + channel + (kBack ? partner : 0));
  }
  for (int first = threadIdx.y; first < heads; first += kAtOnce * blockDim.y) {
    const std::int64_t base = (row * heads + first) * width + channel,
                       step = std::int64_t(blockDim.y) * width;
    Own own[kAtOnce], other[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * int(blockDim.y) < heads) {
        own[i] = Own::load(x + base + i * step);
        if (rotates) other[i] = Own::load(x + base + i * step + partner);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * int(blockDim.y) < heads) {
        Own turned = own[i];
        if (rotates) turned = low != kBack ? own[i] * c - other[i] * s : own[i] * c + other[i] * s;
        turned.store(y + base + i * step);
      }
    }
  }
}

template <bool kBack>
void rotate(const char* row, const char* from, const Tensor& x, const Tensor& cos, const Tensor& sin,
            const char* to, Tensor& y, Stream stream) {
  require(x.shape().size() == 3, "{}: {} is {}, expected (rows, heads, channels)", row, from,
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(rotated % 2 == 0 && rotated <= width,
          "{}: {} rotated channels in heads of {}, expected an even part", row, rotated, width);
  require(width <= kThreads && heads < (std::int64_t(1) << 24),
          "{}: {} heads of {} channels, expected at most {} channels", row, heads, width, kThreads);
  h3::cuda::require_tensor(row, from, x, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "cos", cos, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, "sin", sin, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, to, y, DType::bf16, x.shape());
  const unsigned grid = h3::cuda::row_grid(row, rows);
  h3::cuda::by_width(std::gcd(std::gcd(rotated / 2, width), width - rotated), [&](auto w) {
    const int parts = int(width / w.value);
    const dim3 threads(parts, std::max(1, kThreads / parts));
    rotate_row<kBack, w.value><<<grid, threads, 0, stream>>>(
        reinterpret_cast<const Element*>(x.bytes()), cos.data<float>(), sin.data<float>(), int(heads),
        int(width), int(rotated), reinterpret_cast<Element*>(y.bytes()));
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
