// On Hopper: tiles of 64 rows by 64 outputs; a thread owns 4 x 4 of them and walks the depth once, so each is one
// chain, or, of a gradient, one chain after another.
#include "kernels/cuda/device.h"
#include "kernels/cuda/row_sum.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/fp32_projection.h"

namespace h3::kernels::cuda {
namespace {

constexpr int kTile = 64, kDepth = 32, kOwn = 4, kThreads = (kTile / kOwn) * (kTile / kOwn);

// A matrix as a chain reads it: element k of row i lies at i * row_stride + k * depth_stride. One of the two is 1.
template <class T>
struct Operand {
  const T* data;
  std::int64_t rows, row_stride, depth_stride;
};
template <class T>
Operand<T> rows_of(const T* data, std::int64_t rows, std::int64_t cols) {
  return {data, rows, cols, 1};
}
template <class T>
Operand<T> columns_of(const T* data, std::int64_t cols) {
  return {data, cols, 1, cols};
}

// kDepth steps of kTile rows into shared memory; neighbouring threads read neighbouring words.
template <class T>
__device__ void load_tile(const Operand<T>& from, std::int64_t first_row, std::int64_t start, int steps,
                          float (*to)[kTile + kOwn]) {
  const bool along = from.depth_stride == 1;
  for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
    const int k = along ? i % kDepth : i / kTile, r = along ? i / kDepth : i % kTile;
    const std::int64_t row = first_row + r;
    to[k][r] = k < steps && row < from.rows
                   ? h3::cuda::widen(from.data[row * from.row_stride + (start + k) * from.depth_stride])
                   : 0;
  }
}

static_assert(kFp32Run % kDepth == 0);

template <bool kRuns, class A, class B>
__global__ void __launch_bounds__(kThreads)
    project(const Operand<A> a, const Operand<B> b, std::int64_t depth, const float* bias, float* y) {
  __shared__ alignas(16) float left[kDepth][kTile + kOwn], right[kDepth][kTile + kOwn];
  const std::int64_t first_row = std::int64_t(blockIdx.x) * kTile,
                     first_output = std::int64_t(blockIdx.y) * kTile;
  const int down = threadIdx.x / (kTile / kOwn) * kOwn, across = threadIdx.x % (kTile / kOwn) * kOwn;
  float sum[kOwn][kOwn] = {}, of_runs[kOwn][kOwn];
  const auto end_run = [&](bool first) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        of_runs[i][j] = first ? sum[i][j] : of_runs[i][j] + sum[i][j];
        sum[i][j] = 0;
      }
  };
  for (std::int64_t start = 0; start < depth; start += kDepth) {
    if (kRuns && start > 0 && start % kFp32Run == 0) end_run(start == kFp32Run);
    // No step beyond K, not even with zeros: adding +0 would turn a -0 into +0.
    const int steps = int(depth - start < kDepth ? depth - start : kDepth);
    load_tile(a, first_row, start, steps, left);
    load_tile(b, first_output, start, steps, right);
    __syncthreads();
#pragma unroll 8
    for (int step = 0; step < steps; ++step) {
      const float4 l = *reinterpret_cast<const float4*>(&left[step][down]);
      const float4 r = *reinterpret_cast<const float4*>(&right[step][across]);
      const float in[kOwn] = {l.x, l.y, l.z, l.w}, w[kOwn] = {r.x, r.y, r.z, r.w};
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] = __fmaf_rn(in[i], w[j], sum[i][j]);
    }
    __syncthreads();
  }
  if (kRuns) end_run(depth <= kFp32Run);
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t row = first_row + down + i, output = first_output + across + j;
      if (row < a.rows && output < b.rows)
        y[row * b.rows + output] = kRuns ? of_runs[i][j] : sum[i][j] + bias[output];
    }
}

// With a bias it is the projection, without one a gradient.
template <class A, class B>
void launch(const char* row, const Operand<A>& a, const Operand<B>& b, std::int64_t depth, const float* bias,
            Tensor& y, Stream stream) {
  const std::int64_t down = (a.rows + kTile - 1) / kTile, across = (b.rows + kTile - 1) / kTile;
  require(down < (std::int64_t(1) << 31) && across < 65536, "{}: a result of {}, too large for one launch", row,
          to_string(y.shape()));
  const dim3 grid{unsigned(down), unsigned(across)};
  if (bias)
    project<false><<<grid, kThreads, 0, stream>>>(a, b, depth, bias, y.data<float>());
  else
    project<true><<<grid, kThreads, 0, stream>>>(a, b, depth, bias, y.data<float>());
  h3::cuda::check_launch(row);
}

// run(words of x), fp32 or bf16.
template <class Run>
void by_dtype(const char* row, const Tensor& x, const Run& run) {
  require(x.dtype() == DType::fp32 || x.dtype() == DType::bf16, "{}: x is {}, expected fp32 or bf16", row,
          name_of(x.dtype()));
  if (x.dtype() == DType::fp32)
    run(x.data<float>());
  else
    run(reinterpret_cast<const __nv_bfloat16*>(x.bytes()));
}

void require_matrices(const char* row, const char* first, const Tensor& a, const char* second, const Tensor& b) {
  require(a.shape().size() == 2 && b.shape().size() == 2, "{}: {} is {} and {} {}, expected 2 extents each", row, first,
          to_string(a.shape()), second, to_string(b.shape()));
}

}  // namespace

void fp32_projection(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y, Stream stream) {
  constexpr const char* kRow = "fp32_projection";
  require_matrices(kRow, "x", x, "weight", weight);
  const std::int64_t rows = x.shape()[0], depth = x.cols(), outputs = weight.shape()[0];
  h3::cuda::require_tensor(kRow, "x", x, x.dtype(), {rows, depth});
  h3::cuda::require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  h3::cuda::require_tensor(kRow, "bias", bias, DType::fp32, {outputs});
  h3::cuda::require_tensor(kRow, "y", y, DType::fp32, {rows, outputs});
  by_dtype(kRow, x, [&](const auto* words) {
    launch(kRow, rows_of(words, rows, depth), rows_of(weight.data<float>(), outputs, depth), depth,
           bias.data<float>(), y, stream);
  });
}

void fp32_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream) {
  constexpr const char* kRow = "fp32_input_gradient";
  require_matrices(kRow, "dy", dy, "weight", weight);
  const std::int64_t rows = dy.shape()[0], outputs = dy.cols(), depth = weight.cols();
  h3::cuda::require_tensor(kRow, "dy", dy, DType::fp32, {rows, outputs});
  h3::cuda::require_tensor(kRow, "weight", weight, DType::fp32, {outputs, depth});
  h3::cuda::require_tensor(kRow, "dx", dx, DType::fp32, {rows, depth});
  launch(kRow, rows_of(dy.data<float>(), rows, outputs), columns_of(weight.data<float>(), depth), outputs, nullptr, dx,
         stream);
}

void fp32_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream) {
  constexpr const char* kRow = "fp32_weight_gradient";
  require_matrices(kRow, "dy", dy, "x", x);
  const std::int64_t rows = dy.shape()[0], outputs = dy.cols(), depth = x.cols();
  h3::cuda::require_tensor(kRow, "dy", dy, DType::fp32, {rows, outputs});
  h3::cuda::require_tensor(kRow, "x", x, x.dtype(), {rows, depth});
  h3::cuda::require_tensor(kRow, "dweight", dweight, DType::fp32, {outputs, depth});
  by_dtype(kRow, x, [&](const auto* words) {
    launch(kRow, columns_of(dy.data<float>(), outputs), columns_of(words, depth), rows, nullptr, dweight, stream);
  });
}

void fp32_bias_gradient(const Tensor& dy, Tensor& dbias, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "fp32_bias_gradient";
  require(dy.shape().size() == 2, "{}: dy is {}, expected 2 extents", kRow, to_string(dy.shape()));
  h3::cuda::require_tensor(kRow, "dy", dy, DType::fp32, dy.shape());
  h3::cuda::require_tensor(kRow, "dbias", dbias, DType::fp32, {dy.cols()});
  h3::cuda::sum_all_rows(kRow, dy, dbias, workspace, stream);
}

}  // namespace h3::kernels::cuda
