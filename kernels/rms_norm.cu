// On Hopper: a block a row, the row in registers, each thread with the partials of its vectors; rows of at
// most 128 columns (heads) a warp each. The order of the sum is the one rms_norm.h states, whatever the
// launch. Backward of wide rows: dx and the root of every row in one launch, then the sums over rows, which
// read x and dy again; of heads: all in one.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/row_sum.cuh"
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
__device__ float group_sum(float partial) {
  float of_thread[] = {partial};
  return group_sum(of_thread);
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
  const auto add = [&partial](const Numbers& v) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      partial[e / kVector] = __fmaf_rn(v.value[e], v.value[e], partial[e / kVector]);
  };
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (first + i * kStep < a.cols) add(Numbers::of(cached[i]));
  }
  for (int at = first + kCached * kStep; at < a.cols; at += kStep) add(Numbers::load(x + at));

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

// ---- backward

// Of all 128 threads, in every one of them; `shared` is used once.
__device__ float sum_of_block(float partial, float* shared) {
  const float sum = group_sum(partial);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  return (shared[0] + shared[2]) + (shared[1] + shared[3]);
}

template <class V>
__device__ void add_squares(const V& x, float& sum) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) sum = __fmaf_rn(x.value[e], x.value[e], sum);
}

template <class T>
struct Gradients {
  const T *x, *weight, *dy;
  T* dx;
  std::int64_t rows;
  int cols;
  float eps;
  // Modulated: a part of a table of `table_cols` columns; null when plain.
  const T* scale;
  std::int64_t table_cols;
  const std::int64_t* index;
};

// The gradient of the norm: dy, or R(dy * R(1 + scale)).
template <class T>
__device__ Vector<T, kVector> norm_gradient(const Vector<T, kVector>& dy, const Vector<T, kVector>& scale) {
  Vector<T, kVector> dn;
#pragma unroll
  for (int e = 0; e < kVector; ++e)
    dn.value[e] = h3::cuda::round_to<T>(dy.value[e] * h3::cuda::round_to<T>(1.0f + scale.value[e]));
  return dn;
}

template <class V>
__device__ void add_products(const V& dn, const V& weight, const V& x, float r, float& sum) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) sum = __fmaf_rn(r, (dn.value[e] * weight.value[e]) * x.value[e], sum);
}

template <class V>
__device__ V input_gradient(const V& dn, const V& weight, const V& x, float r, float sum, int cols) {
  const float width = float(cols), scale = __frcp_rn(width) * r;
  V dx;
#pragma unroll
  for (int e = 0; e < kVector; ++e)
    dx.value[e] = scale * __fmaf_rn(dn.value[e], width * weight.value[e], -((r * x.value[e]) * sum));
  return dx;
}

// Four warps a row; x and the gradient of the norm stay in registers, the columns beyond are read again.
template <class T>
__global__ void __launch_bounds__(kPartials, 5) differentiate_wide_rows(const Gradients<T> a, float* roots) {
  using V = Vector<T, kVector>;
  __shared__ float squares[4], products[4];
  const std::int64_t row = blockIdx.x, base = row * a.cols;
  const int vectors = a.cols / kVector, thread = threadIdx.x;
  const T* scale = a.scale ? a.scale + a.index[row] * a.table_cols : nullptr;
  const auto gradient = [&](int vector, const V& dy) {
    return scale ? norm_gradient<T>(dy, V::load(scale + vector * kVector)) : dy;
  };
  const auto load = [](const T* from, int vector) { return V::load(from + vector * kVector); };

  typename V::Bits x[kCached], dn[kCached];
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kPartials; vector < vectors) {
      x[i] = V::load_bits(a.x + base + vector * kVector);
      dn[i] = V::load_bits(a.dy + base + vector * kVector);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCached; ++i)
    if (thread + i * kPartials < vectors) add_squares(V::of(x[i]), sum);
  for (int vector = thread + kCached * kPartials; vector < vectors; vector += kPartials)
    add_squares(load(a.x + base, vector), sum);
  const float r = reciprocal_root(sum_of_block(sum, squares), a.cols, a.eps);

  sum = 0;
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kPartials; vector < vectors) {
      const V d = gradient(vector, V::of(dn[i]));
      dn[i] = d.bits();
      add_products(d, load(a.weight, vector), V::of(x[i]), r, sum);
    }
  }
  for (int vector = thread + kCached * kPartials; vector < vectors; vector += kPartials)
    add_products(gradient(vector, load(a.dy + base, vector)), load(a.weight, vector),
                 load(a.x + base, vector), r, sum);
  sum = sum_of_block(sum, products);

#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kPartials; vector < vectors)
      input_gradient(V::of(dn[i]), load(a.weight, vector), V::of(x[i]), r, sum, a.cols)
          .store(a.dx + base + vector * kVector);
  }
  for (int vector = thread + kCached * kPartials; vector < vectors; vector += kPartials)
    input_gradient(gradient(vector, load(a.dy + base, vector)), load(a.weight, vector),
                   load(a.x + base, vector), r, sum, a.cols)
        .store(a.dx + base + vector * kVector);
  if (thread == 0) roots[row] = r;
}

// Terms of dweight, and of dshift and dscale where the norm is modulated.
template <class T, bool kModulated>
struct NormTerms {
  static constexpr int kSums = kModulated ? 3 : 1;
  using V = Vector<T, kVector>;
  struct Kept {
    V weight, scale;
  };
  struct Loaded {
    typename V::Bits x, dy;
    float root;
  };

  Gradients<T> a;
  const float* roots;

  __device__ Kept start(std::int64_t row, std::int64_t column) const {
    Kept kept{V::load(a.weight + column), {}};
    if constexpr (kModulated) kept.scale = V::load(a.scale + a.index[row] * a.table_cols + column);
    return kept;
  }
  __device__ Loaded load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * a.cols + column;
    return {V::load_bits(a.x + at), V::load_bits(a.dy + at), roots[row]};
  }
  __device__ void of(std::int64_t, std::int64_t, const Kept& kept, const Loaded& loaded,
                     float (&term)[kSums][kVector]) const {
    const V x = V::of(loaded.x), dy = V::of(loaded.dy);
    V dn = dy;
    if constexpr (kModulated) dn = norm_gradient<T>(dy, kept.scale);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      term[0][e] = (dn.value[e] * x.value[e]) * loaded.root;
      if constexpr (kModulated) {
        const float n = h3::cuda::round_to<T>(kept.weight.value[e] * (loaded.root * x.value[e]));
        term[1][e] = dy.value[e];
        term[2][e] = h3::cuda::round_to<T>(dy.value[e] * n);
      }
    }
  }
};

// Heads: a block of four warps takes one run of 128 rows, 16 at a time, a warp four of those. Terms of
// dweight go through shared memory to the thread that adds the run's column; two buffers, so that one barrier
// a step is enough.
constexpr int kStepRows = kRowsOfWarp * kNarrowThreads / 32, kNarrow = 32 * kVector;

template <class T>
__global__ void __launch_bounds__(kNarrowThreads)
    differentiate_narrow_rows(const Gradients<T> a, float* partial) {
  using V = Vector<T, kVector>;
  __shared__ alignas(16) float terms[2][kStepRows][kNarrow];
  const std::int64_t first = std::int64_t(blockIdx.x) * h3::cuda::kFanIn;
  const std::int64_t end = min(first + h3::cuda::kFanIn, a.rows);
  const int warp = threadIdx.x / 32, column = threadIdx.x % 32 * kVector;
  const bool holds = column < a.cols;
  V weight = {};
  if (holds) weight = V::load(a.weight + column);
  float column_sum = h3::cuda::kNothing;
  int buffer = 0;
  for (std::int64_t start = first; start < end; start += kStepRows, buffer ^= 1) {
    const std::int64_t mine = start + warp * kRowsOfWarp;
    V x[kRowsOfWarp] = {}, dy[kRowsOfWarp] = {};
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      if (!holds || mine + i >= end) continue;
      x[i] = V::load(a.x + (mine + i) * a.cols + column);
      dy[i] = V::load(a.dy + (mine + i) * a.cols + column);
    }
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      // The other three warps of the order hold +0, which turns a sum of -0 into +0.
      float squares = 0, products = 0;
      add_squares(x[i], squares);
      const float r = reciprocal_root(group_sum(squares) + 0.0f, a.cols, a.eps);
      add_products(dy[i], weight, x[i], r, products);
      const float sum = group_sum(products) + 0.0f;
      if (!holds || mine + i >= end) continue;
      input_gradient(dy[i], weight, x[i], r, sum, a.cols).store(a.dx + (mine + i) * a.cols + column);
      float4 term;
      term.x = (dy[i].value[0] * x[i].value[0]) * r;
      term.y = (dy[i].value[1] * x[i].value[1]) * r;
      term.z = (dy[i].value[2] * x[i].value[2]) * r;
      term.w = (dy[i].value[3] * x[i].value[3]) * r;
      *reinterpret_cast<float4*>(&terms[buffer][warp * kRowsOfWarp + i][column]) = term;
    }
    __syncthreads();
    if (int(threadIdx.x) < a.cols) {
      const int count = int(min(std::int64_t(kStepRows), end - start));
#pragma unroll 4
      for (int i = 0; i < count; ++i) column_sum += terms[buffer][i][threadIdx.x];
    }
  }
  if (int(threadIdx.x) < a.cols) partial[std::int64_t(blockIdx.x) * a.cols + threadIdx.x] = column_sum;
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

void check_gradients(const char* row, const Tensor& x, const Tensor& weight, float eps, const Tensor& dy,
                     const Tensor& dx, const Tensor& dweight) {
  check_operands(row, x, weight, eps, x);
  h3::cuda::require_tensor(row, "dy", dy, x.dtype(), x.shape());
  h3::cuda::require_tensor(row, "dx", dx, x.dtype(), x.shape());
  h3::cuda::require_tensor(row, "dweight", dweight, x.dtype(), {x.cols()});
}

template <class T>
Gradients<T> gradient_operands(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy,
                               Tensor& dx) {
  const auto words = [](const Tensor& t) { return reinterpret_cast<const T*>(t.bytes()); };
  return {words(x), words(weight), words(dy), reinterpret_cast<T*>(dx.bytes()),
          x.rows(), int(x.cols()), eps,       nullptr,
          0,        nullptr};
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

std::int64_t rms_norm_workspace(std::int64_t rows, std::int64_t cols) {
  return h3::cuda::runs_of(rows).count * cols + rows;
}

void rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                       Tensor& dweight, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "rms_norm_backward";
  check_gradients(kRow, x, weight, eps, dy, dx, dweight);
  const std::int64_t cols = x.cols();
  const h3::cuda::Runs runs = h3::cuda::runs_of(x.rows());
  h3::cuda::Workspace memory(kRow, workspace, rms_norm_workspace(x.rows(), cols));
  float *partial = memory.take(runs.count * cols), *roots = memory.take(x.rows());
  by_dtype(x.dtype(), [&]<class T>(T) {
    const auto a = gradient_operands<T>(x, weight, eps, dy, dx);
    if (cols <= kNarrow) {
      differentiate_narrow_rows<<<unsigned(runs.count), kPartials, 0, stream>>>(a, partial);
      h3::cuda::check_launch(kRow);
    } else {
      differentiate_wide_rows<<<unsigned(x.rows()), kPartials, 0, stream>>>(a, roots);
      h3::cuda::check_launch(kRow);
      h3::cuda::launch_sum_runs<kVector>(kRow, NormTerms<T, false>{a, roots}, runs, cols, partial, stream);
    }
  });
  h3::cuda::finish_sums(kRow, runs, cols, partial, x.dtype(), {h3::cuda::over_all(dweight)}, stream);
}

std::int64_t modulated_rms_norm_workspace(const h3::cuda::RowIndex& index, std::int64_t cols) {
  return 3 * index.runs() * cols + index.rows();
}

void modulated_rms_norm_backward(const Tensor& x, const Tensor& weight, float eps, const TablePart& scale,
                                 const RowIndex& index, const Tensor& dy, Tensor& dx, Tensor& dweight,
                                 TablePart dshift, TablePart dscale, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "modulated_rms_norm_backward";
  check_gradients(kRow, x, weight, eps, dy, dx, dweight);
  const std::int64_t cols = x.cols();
  require(x.shape().size() == 2 && index.rows() == x.shape()[0], "{}: {} indices for x {}", kRow,
          index.rows(), to_string(x.shape()));
  require_part(kRow, "scale", scale, x.dtype(), cols, index);
  require_part_gradient(kRow, "dshift", dshift, x.dtype(), cols, index);
  require_part_gradient(kRow, "dscale", dscale, x.dtype(), cols, index);
  const h3::cuda::Runs runs = h3::cuda::runs_of(index);
  h3::cuda::Workspace memory(kRow, workspace, modulated_rms_norm_workspace(index, cols));
  float *partial = memory.take(3 * runs.count * cols), *roots = memory.take(x.rows());
  by_dtype(x.dtype(), [&]<class T>(T) {
    auto a = gradient_operands<T>(x, weight, eps, dy, dx);
    a.scale = reinterpret_cast<const T*>(scale.table.bytes()) + scale.offset(0, cols);
    a.table_cols = scale.table.cols();
    a.index = index.data();
    differentiate_wide_rows<<<unsigned(x.rows()), kPartials, 0, stream>>>(a, roots);
    h3::cuda::check_launch(kRow);
    h3::cuda::launch_sum_runs<kVector>(kRow, NormTerms<T, true>{a, roots}, runs, cols, partial, stream);
  });
  h3::cuda::finish_sums(
      kRow, runs, cols, partial, x.dtype(),
      {h3::cuda::over_all(dweight), h3::cuda::target_of(dshift, cols), h3::cuda::target_of(dscale, cols)},
      stream);
}

}  // namespace h3::kernels::cuda
