// On Hopper: a block a row, the row in registers, each thread with the partials of its vectors; rows of at
// most 128 columns (heads) a warp each. The order of the sum is the one rms_norm.h states, whatever the
// launch.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/packed.cuh"
#include "kernels/rms_norm.h"

namespace h3::kernels::cuda {
namespace {

using h3::cuda::Packed;
using h3::cuda::RowIndex;
using h3::cuda::Vector;

constexpr int kVector = 4, kPartials = 128;  // of the order
constexpr int kCached = 11;                  // 11 * 128 * 4 = 5632 columns stay in registers

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

// The halving tree over the 32 partials of a group, kOfThread consecutive ones in each thread; every thread
// of the group has the sum. Each addition has the operands that the tree has, in one order or the other.
template <int kOfThread>
__device__ float group_sum(float (&partial)[kOfThread]) {
#pragma unroll
  for (int step = 16 / kOfThread; step > 0; step /= 2) {
#pragma unroll
    for (float& sum : partial) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  return kOfThread == 2 ? partial[0] + partial[kOfThread - 1] : partial[0];
}

__device__ float reciprocal_root(float sum, int cols, float eps) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fdiv_rn(sum, float(cols)) + eps));
  return r;
}

// y = R(R(n * R(1 + scale)) + shift), n not yet rounded.
template <class T, int V>
__device__ void modulate(const Vector<T, V>& n, const T* scale, const T* shift, T* y) {
  using Own = Packed<T, V>;
  (Own::rounded(n) * (Own::filled(1) + Own::load(scale)) + Own::load(shift)).store(y);
}
template <int V>
__device__ void modulate(const Vector<float, V>& n, const float* scale, const float* shift, float* y) {
  using Own = Vector<float, V>;
  const Own u = Own::load(scale), b = Own::load(shift);
  Own out;
#pragma unroll
  for (int e = 0; e < V; ++e) out.value[e] = n.value[e] * (1.0f + u.value[e]) + b.value[e];
  out.store(y);
}

// `table`: the row of the modulation tables, in elements.
template <class T, int V>
__device__ void finish(const Rows<T>& a, std::int64_t row, std::int64_t table, int at, const Vector<T, V>& x,
                       float r) {
  const auto weight = Vector<T, V>::load(a.weight + at);
  Vector<T, V> n;
#pragma unroll
  for (int e = 0; e < V; ++e) n.value[e] = weight.value[e] * (r * x.value[e]);
  T* y = a.y + row * a.cols + at;
  if (a.index != nullptr)
    modulate(n, a.scale + table + at, a.shift + table + at, y);
  else
    n.store(y);
}

// What was computed from these bits before is computed anew, not kept in registers.
__device__ void forget(uint2& bits) { asm volatile("" : "+r"(bits.x), "+r"(bits.y)); }
__device__ void forget(uint4& bits) {
  asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
}

// x is read once and takes no room in the first cache: that is for the weight and the modulation tables.
__device__ void load_once(const void* from, uint2& bits) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(bits.x), "=r"(bits.y)
               : "l"(from));
}
__device__ void load_once(const void* from, uint4& bits) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(from));
}

// V is one or two vectors of the order. Thread t has vectors t, t + kThreads, ... of V elements, and so the
// order's partials V / 4 * t to V / 4 * (t + 1) - 1.
template <int V>
constexpr int kThreads = kPartials* kVector / V;
template <int V>
constexpr int kBlocks =
    V == kVector ? 8 : 13;  // of a multiprocessor: rows in flight that keep its memory busy

template <class T, int V>
__global__ void __launch_bounds__(kThreads<V>, kBlocks<V>) norm_wide_rows(const Rows<T> a) {
  using Numbers = Vector<T, V>;
  constexpr int kOfThread = V / kVector, kLanes = 32 / kOfThread, kStep = kThreads<V> * V;
  const std::int64_t row = blockIdx.x, table = a.index ? a.index[row] * a.table_cols : 0;
  const T* x = a.x + row * a.cols;
  const int first = threadIdx.x * V;
  typename Numbers::Bits cached[kCached];
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int at = first + i * kStep; at < a.cols) load_once(x + at, cached[i]);
  }
  float partial[kOfThread] = {};
  const auto add_squares = [&partial](const Numbers& v) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      partial[e / kVector] = __fmaf_rn(v.value[e], v.value[e], partial[e / kVector]);
  };
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (first + i * kStep < a.cols) add_squares(Numbers::of(cached[i]));
  }
  for (int at = first + kCached * kStep; at < a.cols; at += kStep) add_squares(Numbers::load(x + at));

  __shared__ float group[4];
  const float sum = group_sum(partial);
  if (threadIdx.x % kLanes == 0) group[threadIdx.x / kLanes] = sum;
  __syncthreads();
  const float total = (group[0] + group[2]) + (group[1] + group[3]);
  const float r = reciprocal_root(total, a.cols, a.eps);
#pragma unroll
  for (int i = 0; i < kCached; ++i) forget(cached[i]);
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int at = first + i * kStep; at < a.cols) finish(a, row, table, at, Numbers::of(cached[i]), r);
  }
  for (int at = first + kCached * kStep; at < a.cols; at += kStep)
    finish(a, row, table, at, Numbers::load(x + at), r);
}

// The other three warps of the order would add zeros. A warp takes kRowsOfWarp rows at once.
constexpr int kNarrowThreads = 128, kRowsOfWarp = 4, kRowsOfBlock = kRowsOfWarp * kNarrowThreads / 32;

template <class T>
__global__ void __launch_bounds__(kNarrowThreads) norm_narrow_rows(const Rows<T> a) {
  using V = Vector<T, kVector>;
  const std::int64_t first =
      (std::int64_t(blockIdx.x) * (kNarrowThreads / 32) + threadIdx.x / 32) * kRowsOfWarp;
  const int vector = threadIdx.x % 32;
  const bool holds = vector < a.cols / kVector;
  V v[kRowsOfWarp] = {};
  float sum[kRowsOfWarp][1] = {};
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    if (holds && first + i < a.rows) v[i] = V::load(a.x + (first + i) * a.cols + vector * kVector);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum[i][0] = __fmaf_rn(v[i].value[e], v[i].value[e], sum[i][0]);
    sum[i][0] = group_sum(sum[i]);
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    if (const std::int64_t row = first + i; holds && row < a.rows)
      finish(a, row, a.index ? a.index[row] * a.table_cols : 0, vector * kVector, v[i],
             reciprocal_root(sum[i][0], a.cols, a.eps));
  }
}

template <int V, class T>
void launch_wide(const Rows<T>& a, Stream stream) {
  norm_wide_rows<T, V><<<unsigned(a.rows), kThreads<V>, 0, stream>>>(a);
}

template <class T>
void launch(const Rows<T>& a, Stream stream) {
  if (a.cols <= kVector * 32) {
    const std::int64_t blocks = (a.rows + kRowsOfBlock - 1) / kRowsOfBlock;
    norm_narrow_rows<<<unsigned(blocks), kNarrowThreads, 0, stream>>>(a);
  } else if constexpr (sizeof(T) == 2) {  // 16 bytes at a time where rows begin at multiples of 16 bytes
    a.cols % 8 == 0 ? launch_wide<8>(a, stream) : launch_wide<4>(a, stream);
  } else {
    launch_wide<4>(a, stream);
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
