// A block per packed row; heads of whole 16 bytes in 16 lanes each, their partners a shuffle away, others
// channel by channel.
#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rotation.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/mm_rope.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;
using h3::cuda::Rotation;
using h3::cuda::Turn;
constexpr int kThreads = 128, kV = Rotation<Turn::forward>::kV, kLanes = Rotation<Turn::forward>::kLanes;
constexpr int kHeads = kThreads / kLanes;  // of a block at once
constexpr int kAtOnce = 7;                 // heads of a thread that are loaded before the first one is turned

template <Turn kTurn>
__global__ void __launch_bounds__(kThreads) rotate_row(const Element* x, const float* cos, const float* sin,
                                                       int heads, int width, int rotated, Element* y) {
  using Part = typename Rotation<kTurn>::Part;
  const std::int64_t row = blockIdx.x;
  const int lane = threadIdx.x % kLanes, own_head = threadIdx.x / kLanes;
  const bool holds = lane * kV < width;
  const Rotation<kTurn> turned(cos + row * rotated, sin + row * rotated, rotated, lane);
  for (int done = 0; done < heads; done += kAtOnce * kHeads) {  // the whole warp in step
    const int first = done + own_head;
    const std::int64_t at = (row * heads + first) * width + lane * kV, step = std::int64_t(kHeads) * width;
    Part part[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (holds && first + i * kHeads < heads) part[i] = Part::load(x + at + i * step);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Part result = turned(part[i]);
      if (holds && first + i * kHeads < heads) result.store(y + at + i * step);
    }
  }
}

template <Turn kTurn>
__global__ void __launch_bounds__(kThreads)
    rotate_channels(const Element* x, const float* cos, const float* sin, int heads, int width, int rotated,
                    Element* y) {
  using h3::cuda::round_to, h3::cuda::widen;
  const std::int64_t row = blockIdx.x, base = row * heads * width;
  const int half = rotated / 2;
  for (int i = threadIdx.x; i < heads * width; i += kThreads) {
    const int channel = i % width;
    const bool low = channel < half;
    if (channel >= rotated) {
      y[base + i] = x[base + i];
      continue;
    }
    const int partner = low ? half : -half, angle = kTurn == Turn::forward ? channel : channel + partner;
    const float own = round_to<Element>(widen(x[base + i]) * round_to<Element>(cos[row * rotated + channel]));
    const float other =
        round_to<Element>(widen(x[base + i + partner]) * round_to<Element>(sin[row * rotated + angle]));
    y[base + i] = h3::cuda::narrow<Element>(low == (kTurn == Turn::forward) ? own - other : own + other);
  }
}

template <Turn kTurn>
void rotate(const char* row, const char* from, const Tensor& x, const Tensor& cos, const Tensor& sin,
            const char* to, Tensor& y, Stream stream) {
  require(x.shape().size() == 3, "{}: {} is {}, expected (rows, heads, channels)", row, from,
          to_string(x.shape()));
  const std::int64_t rows = x.shape()[0], heads = x.shape()[1], width = x.shape()[2], rotated = cos.cols();
  require(rotated % 2 == 0 && rotated <= width && heads * width < (std::int64_t(1) << 31),
          "{}: {} rotated channels in {} heads of {}, expected an even part", row, rotated, heads, width);
  h3::cuda::require_tensor(row, from, x, DType::bf16, x.shape());
  h3::cuda::require_tensor(row, "cos", cos, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, "sin", sin, DType::fp32, {rows, rotated});
  h3::cuda::require_tensor(row, to, y, DType::bf16, x.shape());
  const bool in_lanes = width % kV == 0 && rotated % (2 * kV) == 0 && width <= kLanes * kV;
  const auto kernel = in_lanes ? rotate_row<kTurn> : rotate_channels<kTurn>;
  kernel<<<h3::cuda::row_grid(row, rows), kThreads, 0, stream>>>(
      reinterpret_cast<const Element*>(x.bytes()), cos.data<float>(), sin.data<float>(), int(heads),
      int(width), int(rotated), reinterpret_cast<Element*>(y.bytes()));
  h3::cuda::check_launch(row);
}

}  // namespace

void mm_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y, Stream stream) {
  rotate<Turn::forward>("mm_rope", "x", x, cos, sin, "y", y, stream);
}

void mm_rope_backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, Tensor& dx, Stream stream) {
  rotate<Turn::backward>("mm_rope_backward", "dy", dy, cos, sin, "dx", dx, stream);
}

}  // namespace h3::kernels::cuda
