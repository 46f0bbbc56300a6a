// A block per packed row of q or of k, 16 lanes a head, 8 channels a lane: two of the order's 32 partials,
// and a rotation's partner a few lanes away. No number leaves its registers between the norm and the
// rotation.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/rotation.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/qk_norm_rope.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;

using Rotation = h3::cuda::Rotation<h3::cuda::Turn::forward>;

constexpr int kV = Rotation::kV, kLanes = Rotation::kLanes, kWidth = kV * kLanes, kThreads = 128;
constexpr int kAtOnce =
    7;  // heads of a thread: with 56 heads a row is loaded before the first one is worked on
using Heads = Rotation::Part;
using Numbers = h3::cuda::Vector<Element, kV>;

struct Operands {
  const Element *x, *weight;
  Element *rotated, *normed;
};

// The sum of squares of a head in all of its 16 lanes: partial t of the order lies in lane t / 2.
__device__ float sum_of_squares(const Numbers& x) {
  float partial[2] = {};
#pragma unroll
  for (int e = 0; e < kV; ++e) partial[e / 4] = __fmaf_rn(x.value[e], x.value[e], partial[e / 4]);
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
    for (float& sum : partial) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  return partial[0] + partial[1];
}

__device__ Heads normed_head(const Heads& x, const Heads& weight, float eps) {
  const Numbers v = x.widened(), w = weight.widened();
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fdiv_rn(sum_of_squares(v), float(kWidth)) + eps));
  Numbers n;
#pragma unroll
  for (int e = 0; e < kV; ++e) n.value[e] = w.value[e] * (r * v.value[e]);
  return Heads::rounded(n);
}

__global__ void __launch_bounds__(kThreads, 6)
    normalise_and_rotate(const Operands q, const Operands k, const float* cos, const float* sin, int heads,
                         int rotated, float eps) {
  const bool is_q = blockIdx.y == 0;
  const Element *const from = is_q ? q.x : k.x, *const weights = is_q ? q.weight : k.weight;
  Element *const to = is_q ? q.rotated : k.rotated, *const kept = is_q ? q.normed : k.normed;
  const std::int64_t row = blockIdx.x;
  const int lane = threadIdx.x % kLanes;
  const Heads weight = Heads::load(weights + lane * kV);
  const Rotation turned(cos + row * rotated, sin + row * rotated, rotated, lane);
  for (int done = 0; done < heads; done += kAtOnce * kThreads / kLanes) {  // the whole warp in step
    const int first = done + threadIdx.x / kLanes;
    const std::int64_t at = (row * heads + first) * kWidth + lane * kV;
    Heads x[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads / kLanes < heads) x[i] = Heads::load(from + at + i * kThreads * kV);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Heads n = normed_head(x[i], weight, eps), rotated_part = turned(n);
      if (first + i * kThreads / kLanes < heads) {
        if (kept != nullptr) n.store(kept + at + i * kThreads * kV);
        rotated_part.store(to + at + i * kThreads * kV);
      }
    }
  }
}

Operands checked(const char* row, const char* which, const NormRope& part, const Shape& shape) {
  h3::cuda::require_tensor(row, which, part.x, DType::bf16, shape);
  h3::cuda::require_tensor(row, "weight", part.weight, DType::bf16, {kWidth});
  h3::cuda::require_tensor(row, "rotated", part.rotated, DType::bf16, shape);
  if (!part.normed.empty()) h3::cuda::require_tensor(row, "normed", part.normed, DType::bf16, shape);
  const auto words = [](const Tensor& t) {
    return reinterpret_cast<Element*>(const_cast<std::byte*>(t.bytes()));
  };
  return {words(part.x), words(part.weight), words(part.rotated), words(part.normed)};
}

}  // namespace

void qk_norm_rope(NormRope q, NormRope k, float eps, const Tensor& cos, const Tensor& sin, Stream stream) {
  constexpr const char* kRow = "qk_norm_rope";
  const Shape& shape = q.x.shape();
  require(shape.size() == 3 && shape[2] == kWidth, "{}: q is {}, expected (rows, heads, {})", kRow,
          to_string(shape), kWidth);
  require(shape[1] < (std::int64_t(1) << 31) / kWidth, "{}: {} heads, too many for one block", kRow,
          shape[1]);
  const std::int64_t rotated = cos.cols();
  require(rotated % (2 * kV) == 0 && rotated <= kWidth,
          "{}: {} rotated channels in heads of {}, expected a multiple of {}", kRow, rotated, kWidth, 2 * kV);
  require(eps >= 0 && std::isfinite(eps), "{}: eps is {}, expected a finite number >= 0", kRow, eps);
  h3::cuda::require_tensor(kRow, "cos", cos, DType::fp32, {shape[0], rotated});
  h3::cuda::require_tensor(kRow, "sin", sin, DType::fp32, {shape[0], rotated});
  const Operands of_q = checked(kRow, "q", q, shape), of_k = checked(kRow, "k", k, shape);
  const dim3 grid(h3::cuda::row_grid(kRow, shape[0]), 2);
  normalise_and_rotate<<<grid, kThreads, 0, stream>>>(of_q, of_k, cos.data<float>(), sin.data<float>(),
                                                      int(shape[1]), int(rotated), eps);
  h3::cuda::check_launch(kRow);
}

}  // namespace h3::kernels::cuda
