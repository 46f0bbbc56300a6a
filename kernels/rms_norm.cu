// On Hopper: four warps a row, the row in registers; rows of at most 128 columns (heads) a warp each. The
// order of the sum is the one rms_norm.h states, whatever the launch.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/rms_norm.h"

namespace h3::kernels::cuda {
namespace {

using h3::cuda::RowIndex;
using h3::cuda::Vector;

constexpr int kVector = 4, kThreads = 128, kCached = 11;  // 11 * 128 * 4 = 5632 columns stay in registers
constexpr int kBlocks = 8;  // of a multiprocessor: enough rows in flight to keep its memory busy

template <class T>
struct Rows {
  const T *x, *weight;
  T* y;
  std::int64_t rows;
  int cols;
  float eps;
  // Modulated rows: part pointers into tables of `table_cols` columns; null when plain.
  const T *shift, *scale;
  std::int64_t table_cols;
  const std::int64_t* index;
};

__device__ float halving_tree(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;  // of the whole warp, in lane 0
}

__device__ float reciprocal_root(float sum, int cols, float eps) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fdiv_rn(sum, float(cols)) + eps));
  return r;
}

template <class T>
__device__ void finish(const Rows<T>& a, std::int64_t row, int vector, const Vector<T, kVector>& x, float r) {
  using V = Vector<T, kVector>;
  const int at = vector * kVector;
  const V weight = V::load(a.weight + at);
  V y;
#pragma unroll
  for (int e = 0; e < kVector; ++e) y.value[e] = weight.value[e] * (r * x.value[e]);
  if (a.index != nullptr) {
    const std::int64_t table = a.index[row] * a.table_cols + at;
    const V shift = V::load(a.shift + table), scale = V::load(a.scale + table);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const float n = h3::cuda::round_to<T>(y.value[e]), u = h3::cuda::round_to<T>(1.0f + scale.value[e]);
      y.value[e] = h3::cuda::round_to<T>(n * u) + shift.value[e];
    }
  }
  y.store(a.y + row * a.cols + at);
}

template <class T>
__global__ void __launch_bounds__(kThreads, kBlocks) norm_wide_rows(const Rows<T> a) {
  using V = Vector<T, kVector>;
  __shared__ float warp_sum[4];
  const std::int64_t row = blockIdx.x;
  const T* x = a.x + row * a.cols;
  const int vectors = a.cols / kVector, thread = threadIdx.x;
  typename V::Bits cached[kCached];
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kThreads; vector < vectors)
      cached[i] = V::load_bits(x + vector * kVector);
  }
  float sum = 0;
  const auto add_squares = [&sum](const V& v) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum = __fmaf_rn(v.value[e], v.value[e], sum);
  };
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (thread + i * kThreads < vectors) add_squares(V::of(cached[i]));
  }
  for (int vector = thread + kCached * kThreads; vector < vectors; vector += kThreads)
    add_squares(V::load(x + vector * kVector));
  sum = halving_tree(sum);
  if (thread % 32 == 0) warp_sum[thread / 32] = sum;
  __syncthreads();
  const float total = (warp_sum[0] + warp_sum[2]) + (warp_sum[1] + warp_sum[3]);
  const float r = reciprocal_root(total, a.cols, a.eps);
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kThreads; vector < vectors)
      finish(a, row, vector, V::of(cached[i]), r);
  }
  for (int vector = thread + kCached * kThreads; vector < vectors; vector += kThreads)
    finish(a, row, vector, V::load(x + vector * kVector), r);
}

// The other three warps of the order would add zeros. A warp takes kRowsOfWarp rows at once.
constexpr int kRowsOfWarp = 4, kRowsOfBlock = kRowsOfWarp * kThreads / 32;

template <class T>
__global__ void __launch_bounds__(kThreads) norm_narrow_rows(const Rows<T> a) {
  using V = Vector<T, kVector>;
  const std::int64_t first = (std::int64_t(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32) * kRowsOfWarp;
  const int vector = threadIdx.x % 32;
  const bool holds = vector < a.cols / kVector;
  V v[kRowsOfWarp] = {};
  float sum[kRowsOfWarp] = {};
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    if (holds && first + i < a.rows) v[i] = V::load(a.x + (first + i) * a.cols + vector * kVector);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum[i] = __fmaf_rn(v[i].value[e], v[i].value[e], sum[i]);
    sum[i] = __shfl_sync(0xffffffffu, halving_tree(sum[i]), 0);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    if (holds && first + i < a.rows)
      finish(a, first + i, vector, v[i], reciprocal_root(sum[i], a.cols, a.eps));
  }
}

template <class T>
void launch(const Rows<T>& a, Stream stream) {
  if (a.cols <= kVector * 32) {
    const std::int64_t blocks = (a.rows + kRowsOfBlock - 1) / kRowsOfBlock;
    norm_narrow_rows<<<unsigned(blocks), kThreads, 0, stream>>>(a);
  } else {
    norm_wide_rows<<<unsigned(a.rows), kThreads, 0, stream>>>(a);
  }
  h3::cuda::check_launch("rms_norm");
}

void check_operands(const char* row, const Tensor& x, const Tensor& weight, float eps, const Tensor& y) {
  require(!x.shape().empty() && x.cols() % kVector == 0,
          "{}: x is {}, expected an innermost extent that is a multiple of {}", row, to_string(x.shape()),
          kVector);
  require(x.dtype() == DType::bf16 || x.dtype() == DType::fp16 || x.dtype() == DType::fp32,
          "{}: x is {}, expected bf16, fp16 or fp32", row, name_of(x.dtype()));
  require(eps >= 0 && std::isfinite(eps), "{}: eps is {}, expected a finite number >= 0", row, eps);
  h3::cuda::require_tensor(row, "x", x, x.dtype(), x.shape());
  h3::cuda::require_tensor(row, "weight", weight, x.dtype(), {x.cols()});
  h3::cuda::require_tensor(row, "y", y, x.dtype(), x.shape());
  require(x.rows() < (std::int64_t(1) << 31) && x.cols() < (std::int64_t(1) << 31),
          "{}: x is {}, too large for one launch", row, to_string(x.shape()));
}

template <class T>
Rows<T> operands(const Tensor& x, const Tensor& weight, float eps, Tensor& y) {
  const auto words = [](const Tensor& t) { return reinterpret_cast<const T*>(t.bytes()); };
  return {words(x), words(weight), reinterpret_cast<T*>(y.bytes()),
          x.rows(), int(x.cols()), eps,
          nullptr,  nullptr,       0,
          nullptr};
}

template <class Run>
void by_dtype(DType dtype, const Run& run) {
  if (dtype == DType::bf16) run(__nv_bfloat16{});
  if (dtype == DType::fp16) run(__half{});
  if (dtype == DType::fp32) run(float{});
}

}  // namespace

void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Stream stream) {
  check_operands("rms_norm", x, weight, eps, y);
  by_dtype(x.dtype(), [&]<class T>(T) { launch(operands<T>(x, weight, eps, y), stream); });
}

void modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const TablePart& shift,
                        const TablePart& scale, const RowIndex& index, Tensor& y, Stream stream) {
  constexpr const char* kRow = "modulated_rms_norm";
  check_operands(kRow, x, weight, eps, y);
  require(x.shape().size() == 2 && index.rows() == x.shape()[0], "{}: {} indices for x {}", kRow,
          index.rows(), to_string(x.shape()));
  require_part(kRow, "shift", shift, x.dtype(), x.cols(), index);
  require_part(kRow, "scale", scale, x.dtype(), x.cols(), index);
  require(shift.table.cols() == scale.table.cols(), "{}: shift and scale lie in tables of different widths",
          kRow);
  by_dtype(x.dtype(), [&]<class T>(T) {
    Rows<T> a = operands<T>(x, weight, eps, y);
    a.shift = reinterpret_cast<const T*>(shift.table.bytes()) + shift.offset(0, x.cols());
    a.scale = reinterpret_cast<const T*>(scale.table.bytes()) + scale.offset(0, x.cols());
    a.table_cols = shift.table.cols();
    a.index = index.data();
    launch(a, stream);
  });
}

}  // namespace h3::kernels::cuda
