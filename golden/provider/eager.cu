#include "golden/provider/eager.h"

#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/device.h"

namespace h3::golden::provider {
namespace {

using Element = __nv_bfloat16;

constexpr int kThreads = 128;

template <class Op>
__global__ void for_each(std::int64_t elements, const Op op) {
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements; i += step) op(i);
}

template <class Op>
void launch(const char* name, std::int64_t elements, const Op& op) {
  const std::int64_t blocks = std::min<std::int64_t>((elements + kThreads - 1) / kThreads, 1 << 20);
  for_each<<<unsigned(blocks), kThreads>>>(elements, op);
  cuda::check_launch(name);
}

template <class T>
const T* in(const Tensor& x) {
  return reinterpret_cast<const T*>(x.bytes());
}
template <class T>
T* out(Tensor& x) {
  return reinterpret_cast<T*>(x.bytes());
}

void require_bf16(const char* name, const char* argument, const Tensor& x, const Shape& shape) {
  cuda::require_tensor(name, argument, x, DType::bf16, shape);
}

Shape with_cols(Shape shape, std::int64_t cols) {
  shape.back() = cols;
  return shape;
}

__device__ float silu_of(float x) { return x / (1.0f + expf(-x)); }

__device__ float halving_tree(float sum) {
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}

__global__ void __launch_bounds__(128) normalise_row(const Element* x, const Element* weight, int cols, float eps,
                                                     Element* y) {
  __shared__ float warp_sum[4];
  x += std::int64_t(blockIdx.x) * cols;
  y += std::int64_t(blockIdx.x) * cols;
  float sum = 0;
  for (int vector = threadIdx.x; vector < cols / 4; vector += 128)
    for (int e = 0; e < 4; ++e) {
      const float value = __bfloat162float(x[4 * vector + e]);
      sum = __fmaf_rn(value, value, sum);
    }
  sum = halving_tree(sum);
  if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = sum;
  __syncthreads();
  const float total = (warp_sum[0] + warp_sum[2]) + (warp_sum[1] + warp_sum[3]);
  const float rstd = rsqrtf(total / float(cols) + eps);
  for (int c = threadIdx.x; c < cols; c += 128)
    y[c] = __float2bfloat16_rn(__bfloat162float(weight[c]) * (rstd * __bfloat162float(x[c])));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  require_bf16("provider add", "a", a, b.shape());
  require_bf16("provider add", "b", b, a.shape());
  Tensor y = cuda::allocate(DType::bf16, a.shape());
  launch("provider add", y.elements(), [a = in<Element>(a), b = in<Element>(b), y = out<Element>(y)] __device__(std::int64_t i) {
    y[i] = __float2bfloat16_rn(__bfloat162float(a[i]) + __bfloat162float(b[i]));
  });
  return y;
}

Tensor add(const Tensor& a, float scalar) {
  require_bf16("provider add", "a", a, a.shape());
  Tensor y = cuda::allocate(DType::bf16, a.shape());
  launch("provider add", y.elements(), [a = in<Element>(a), scalar, y = out<Element>(y)] __device__(std::int64_t i) {
    y[i] = __float2bfloat16_rn(__bfloat162float(a[i]) + scalar);
  });
  return y;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  require_bf16("provider mul", "a", a, b.shape());
  require_bf16("provider mul", "b", b, a.shape());
  Tensor y = cuda::allocate(DType::bf16, a.shape());
  launch("provider mul", y.elements(), [a = in<Element>(a), b = in<Element>(b), y = out<Element>(y)] __device__(std::int64_t i) {
    y[i] = __float2bfloat16_rn(__bfloat162float(a[i]) * __bfloat162float(b[i]));
  });
  return y;
}

Tensor neg(const Tensor& a) {
  require_bf16("provider neg", "a", a, a.shape());
  Tensor y = cuda::allocate(DType::bf16, a.shape());
  launch("provider neg", y.elements(), [a = in<Element>(a), y = out<Element>(y)] __device__(std::int64_t i) {
    y[i] = __float2bfloat16_rn(-__bfloat162float(a[i]));
  });
  return y;
}

Tensor silu(const Tensor& a) {
  Tensor y = cuda::allocate(a.dtype(), a.shape());
  if (a.dtype() == DType::fp32) {
    cuda::require_tensor("provider silu", "a", a, DType::fp32, a.shape());
    launch("provider silu", y.elements(), [a = in<float>(a), y = out<float>(y)] __device__(std::int64_t i) { y[i] = silu_of(a[i]); });
  } else {
    require_bf16("provider silu", "a", a, a.shape());
    launch("provider silu", y.elements(), [a = in<Element>(a), y = out<Element>(y)] __device__(std::int64_t i) {
      y[i] = __float2bfloat16_rn(silu_of(__bfloat162float(a[i])));
    });
  }
  return y;
}

Tensor to_bf16(const Tensor& a) {
  cuda::require_tensor("provider to_bf16", "a", a, DType::fp32, a.shape());
  Tensor y = cuda::allocate(DType::bf16, a.shape());
  launch("provider to_bf16", y.elements(), [a = in<float>(a), y = out<Element>(y)] __device__(std::int64_t i) { y[i] = __float2bfloat16_rn(a[i]); });
  return y;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps) {
  require_bf16("provider rms_norm", "x", x, x.shape());
  require_bf16("provider rms_norm", "weight", weight, {x.cols()});
  require(x.cols() % 4 == 0, "provider rms_norm: {} columns, expected a multiple of 4", x.cols());
  Tensor y = cuda::allocate(DType::bf16, x.shape());
  normalise_row<<<unsigned(x.rows()), 128>>>(in<Element>(x), in<Element>(weight), int(x.cols()), eps, out<Element>(y));
  cuda::check_launch("provider rms_norm");
  return y;
}

Tensor index_select(const Tensor& table, const Tensor& index) {
  require_bf16("provider index_select", "table", table, {table.rows(), table.cols()});
  cuda::require_tensor("provider index_select", "index", index, DType::i64, {index.elements()});
  Tensor y = cuda::allocate(DType::bf16, {index.elements(), table.cols()});
  launch("provider index_select", y.elements(),
         [table = in<Element>(table), index = in<std::int64_t>(index), cols = table.cols(), y = out<Element>(y)] __device__(
             std::int64_t i) { y[i] = table[index[i / cols] * cols + i % cols]; });
  return y;
}

Tensor columns(const Tensor& x, std::int64_t first, std::int64_t count) {
  require_bf16("provider columns", "x", x, x.shape());
  require(first >= 0 && count > 0 && first + count <= x.cols(), "provider columns: [{}, {}) of {}", first, first + count,
          to_string(x.shape()));
  Tensor y = cuda::allocate(DType::bf16, with_cols(x.shape(), count));
  launch("provider columns", y.elements(),
         [x = in<Element>(x), first, count, cols = x.cols(), y = out<Element>(y)] __device__(std::int64_t i) {
           y[i] = x[i / count * cols + first + i % count];
         });
  return y;
}

Tensor concatenate(const Tensor& a, const Tensor& b) {
  require_bf16("provider concatenate", "a", a, with_cols(b.shape(), a.cols()));
  require_bf16("provider concatenate", "b", b, b.shape());
  Tensor y = cuda::allocate(DType::bf16, with_cols(a.shape(), a.cols() + b.cols()));
  launch("provider concatenate", y.elements(),
         [a = in<Element>(a), b = in<Element>(b), left = a.cols(), right = b.cols(), y = out<Element>(y)] __device__(
             std::int64_t i) {
           const std::int64_t row = i / (left + right), column = i % (left + right);
           y[i] = column < left ? a[row * left + column] : b[row * right + column - left];
         });
  return y;
}

Tensor repeat_rows(const Tensor& x, std::int64_t times) {
  require_bf16("provider repeat_rows", "x", x, {x.rows(), x.cols()});
  Tensor y = cuda::allocate(DType::bf16, {x.rows(), times, x.cols()});
  launch("provider repeat_rows", y.elements(),
         [x = in<Element>(x), times, cols = x.cols(), y = out<Element>(y)] __device__(std::int64_t i) {
           y[i] = x[i / (times * cols) * cols + i % cols];
         });
  return y;
}

}  // namespace h3::golden::provider
