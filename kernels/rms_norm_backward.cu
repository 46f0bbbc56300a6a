// On Hopper: the gradients of wide rows are dx and the root of every row in one launch, then the sums over
// rows, which read x and dy again; those of heads (rows of at most 128 columns) are all in one. The orders of
// the sums are those that rms_norm.h states, whatever the launch.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/row_sum.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/rms_norm.h"

namespace h3::kernels::cuda {
namespace {

using h3::cuda::RowIndex;
using h3::cuda::Vector;

constexpr int kVector = 4, kThreads = 128, kCached = 11;  // 11 * 128 * 4 = 5632 columns stay in registers
constexpr int kRowsOfWarp = 4;                            // narrow rows that a warp takes at once

__device__ float halving_tree(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;  // of the whole warp, in lane 0
}

// Of all 128 threads, in every one of them; `shared` is used once.
__device__ float sum_of_block(float partial, float* shared) {
  partial = halving_tree(partial);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = partial;
  __syncthreads();
  return (shared[0] + shared[2]) + (shared[1] + shared[3]);
}

template <class V>
__device__ void add_squares(const V& x, float& sum) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) sum = __fmaf_rn(x.value[e], x.value[e], sum);
}

__device__ float reciprocal_root(float sum, int cols, float eps) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fdiv_rn(sum, float(cols)) + eps));
  return r;
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
__global__ void __launch_bounds__(kThreads, 5) differentiate_wide_rows(const Gradients<T> a, float* roots) {
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
    if (const int vector = thread + i * kThreads; vector < vectors) {
      x[i] = V::load_bits(a.x + base + vector * kVector);
      dn[i] = V::load_bits(a.dy + base + vector * kVector);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCached; ++i)
    if (thread + i * kThreads < vectors) add_squares(V::of(x[i]), sum);
  for (int vector = thread + kCached * kThreads; vector < vectors; vector += kThreads)
    add_squares(load(a.x + base, vector), sum);
  const float r = reciprocal_root(sum_of_block(sum, squares), a.cols, a.eps);

  sum = 0;
#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kThreads; vector < vectors) {
      const V d = gradient(vector, V::of(dn[i]));
      dn[i] = d.bits();
      add_products(d, load(a.weight, vector), V::of(x[i]), r, sum);
    }
  }
  for (int vector = thread + kCached * kThreads; vector < vectors; vector += kThreads)
    add_products(gradient(vector, load(a.dy + base, vector)), load(a.weight, vector),
                 load(a.x + base, vector), r, sum);
  sum = sum_of_block(sum, products);

#pragma unroll
  for (int i = 0; i < kCached; ++i) {
    if (const int vector = thread + i * kThreads; vector < vectors)
      input_gradient(V::of(dn[i]), load(a.weight, vector), V::of(x[i]), r, sum, a.cols)
          .store(a.dx + base + vector * kVector);
  }
  for (int vector = thread + kCached * kThreads; vector < vectors; vector += kThreads)
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
constexpr int kStepRows = kRowsOfWarp * kThreads / 32, kNarrow = 32 * kVector;

template <class T>
__global__ void __launch_bounds__(kThreads) differentiate_narrow_rows(const Gradients<T> a, float* partial) {
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
      const float r =
          reciprocal_root(__shfl_sync(0xffffffffu, halving_tree(squares) + 0.0f, 0), a.cols, a.eps);
      add_products(dy[i], weight, x[i], r, products);
      const float sum = __shfl_sync(0xffffffffu, halving_tree(products) + 0.0f, 0);
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
#pragma unroll
      for (int group = 0; group < kStepRows; group += h3::cuda::kGroup) {
        float of_group[h3::cuda::kGroup];
#pragma unroll
        for (int i = 0; i < h3::cuda::kGroup; ++i)
          of_group[i] = group + i < count ? terms[buffer][group + i][threadIdx.x] : h3::cuda::kNothing;
        column_sum += h3::cuda::sum_of_group(of_group);
      }
    }
  }
  if (int(threadIdx.x) < a.cols) partial[std::int64_t(blockIdx.x) * a.cols + threadIdx.x] = column_sum;
}

void check_gradients(const char* row, const Tensor& x, const Tensor& weight, float eps, const Tensor& dy,
                     const Tensor& dx, const Tensor& dweight) {
  require(!x.shape().empty() && x.cols() % kVector == 0,
          "{}: x is {}, expected an innermost extent that is a multiple of {}", row, to_string(x.shape()),
          kVector);
  require(x.dtype() == DType::bf16 || x.dtype() == DType::fp16 || x.dtype() == DType::fp32,
          "{}: x is {}, expected bf16, fp16 or fp32", row, name_of(x.dtype()));
  require(eps >= 0 && std::isfinite(eps), "{}: eps is {}, expected a finite number >= 0", row, eps);
  require(x.rows() < (std::int64_t(1) << 31) && x.cols() < (std::int64_t(1) << 31),
          "{}: x is {}, too large for one launch", row, to_string(x.shape()));
  h3::cuda::require_tensor(row, "x", x, x.dtype(), x.shape());
  h3::cuda::require_tensor(row, "weight", weight, x.dtype(), {x.cols()});
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
      differentiate_narrow_rows<<<unsigned(runs.count), kThreads, 0, stream>>>(a, partial);
      h3::cuda::check_launch(kRow);
    } else {
      differentiate_wide_rows<<<unsigned(x.rows()), kThreads, 0, stream>>>(a, roots);
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
    differentiate_wide_rows<<<unsigned(x.rows()), kThreads, 0, stream>>>(a, roots);
    h3::cuda::check_launch(kRow);
    h3::cuda::launch_sum_runs<kVector>(kRow, NormTerms<T, true>{a, roots}, runs, cols, partial, stream);
  });
  h3::cuda::finish_sums(
      kRow, runs, cols, partial, x.dtype(),
      {h3::cuda::over_all(dweight), h3::cuda::target_of(dshift, cols), h3::cuda::target_of(dscale, cols)},
      stream);
}

}  // namespace h3::kernels::cuda
