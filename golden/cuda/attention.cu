#include <algorithm>
#include <cmath>

#include "golden/cuda/attention.h"
#include "golden/cuda/dgemm.h"
#include "golden/cuda/wide.h"
#include "kernels/cuda/device.h"

namespace h3::golden {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostWeights = std::int64_t(1) << 30;  // of the heads that are in memory at once

// In every thread; `shared` holds kThreads values.
template <class Combine>
__device__ double over_block(double mine, double* shared, const Combine& combine) {
  shared[threadIdx.x] = mine;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + step]);
  }
  __syncthreads();
  const double result = shared[0];
  __syncthreads();
  return result;
}

// A block has one query of one head: its logits become their softmax.
__global__ void __launch_bounds__(kThreads) softmax(double* weights, std::int64_t keys) {
  __shared__ double shared[kThreads];
  double* row = weights + std::int64_t(blockIdx.x) * keys;
  const auto add = [](double a, double b) { return a + b; };
  double largest = -INFINITY, total = 0;
  for (std::int64_t s = threadIdx.x; s < keys; s += kThreads) largest = fmax(largest, row[s]);
  largest = over_block(largest, shared, [](double a, double b) { return fmax(a, b); });
  for (std::int64_t s = threadIdx.x; s < keys; s += kThreads) total += row[s] = exp(row[s] - largest);
  total = over_block(total, shared, add);
  for (std::int64_t s = threadIdx.x; s < keys; s += kThreads) row[s] /= total;
}

// dp becomes ds = p (dp - sum over the keys of p dp) / divisor.
__global__ void __launch_bounds__(kThreads)
    differentiate_softmax(const double* weights, double* gradients, std::int64_t keys, double divisor) {
  __shared__ double shared[kThreads];
  const double* p = weights + std::int64_t(blockIdx.x) * keys;
  double* dp = gradients + std::int64_t(blockIdx.x) * keys;
  double delta = 0;
  for (std::int64_t s = threadIdx.x; s < keys; s += kThreads) delta += p[s] * dp[s];
  delta = over_block(delta, shared, [](double a, double b) { return a + b; });
  for (std::int64_t s = threadIdx.x; s < keys; s += kThreads) dp[s] = p[s] * (dp[s] - delta) / divisor;
}

struct Extents {
  std::int64_t queries, keys, heads, dim;

  explicit Extents(const Tensor& q, const Tensor& k)
      : queries(q.shape()[0]), keys(k.shape()[0]), heads(q.shape()[1]), dim(q.shape()[2]) {}
  std::int64_t heads_at_once() const {
    return std::clamp<std::int64_t>(kMostWeights / (queries * keys), 1, heads);
  }
  // One head after another of a tensor (rows, heads, dim), from `head` on.
  WideMatrix rows_of(double* x, std::int64_t head) const { return {x + head * dim, heads * dim, false, dim}; }
  WideMatrix columns_of(double* x, std::int64_t head) const {
    return {x + head * dim, heads * dim, true, dim};
  }
  WideMatrix weights(double* w, bool transposed = false) const {
    return {w, keys, transposed, queries * keys};
  }
};

// p of `count` heads from `head` on.
void weights_of(const Extents& e, double* q, double* k, std::int64_t head, std::int64_t count, double* p) {
  dgemm().run({e.queries, e.keys, e.dim, count, 1 / std::sqrt(double(e.dim))}, e.rows_of(q, head),
              e.columns_of(k, head), e.weights(p));
  softmax<<<unsigned(count * e.queries), kThreads>>>(p, e.keys);
  cuda::check_launch("golden: softmax");
}

double* widened_into(WideMemory& memory, const Tensor& x) {
  double* wide = memory.of(x.elements());
  widen(x, wide);
  return wide;
}

}  // namespace

Tensor attention_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, DType out) {
  static WideMemory memory_q, memory_k, memory_v, memory_p, memory_o;
  const Extents e(q, k);
  double *wide_q = widened_into(memory_q, q), *wide_k = widened_into(memory_k, k),
         *wide_v = widened_into(memory_v, v), *p = memory_p.of(e.heads_at_once() * e.queries * e.keys),
         *o = memory_o.of(q.elements());
  for (std::int64_t head = 0; head < e.heads; head += e.heads_at_once()) {
    const std::int64_t count = std::min(e.heads_at_once(), e.heads - head);
    weights_of(e, wide_q, wide_k, head, count, p);
    dgemm().run({e.queries, e.dim, e.keys, count}, e.weights(p), e.rows_of(wide_v, head), e.rows_of(o, head));
  }
  return cuda::download(narrowed(o, nullptr, out, {e.queries, e.heads * e.dim}));
}

AttentionGradients attention_backward_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& gradient, DType out) {
  static WideMemory memory_q, memory_k, memory_v, memory_do, memory_p, memory_ds, memory_dq, memory_dk,
      memory_dv;
  const Extents e(q, k);
  double *wide_q = widened_into(memory_q, q), *wide_k = widened_into(memory_k, k),
         *wide_v = widened_into(memory_v, v), *wide_do = widened_into(memory_do, gradient);
  const std::int64_t weights = e.heads_at_once() * e.queries * e.keys;
  double *p = memory_p.of(weights), *ds = memory_ds.of(weights), *dq = memory_dq.of(q.elements()),
         *dk = memory_dk.of(k.elements()), *dv = memory_dv.of(v.elements());
  for (std::int64_t head = 0; head < e.heads; head += e.heads_at_once()) {
    const std::int64_t count = std::min(e.heads_at_once(), e.heads - head);
    weights_of(e, wide_q, wide_k, head, count, p);
    dgemm().run({e.queries, e.keys, e.dim, count}, e.rows_of(wide_do, head), e.columns_of(wide_v, head),
                e.weights(ds));
    differentiate_softmax<<<unsigned(count * e.queries), kThreads>>>(p, ds, e.keys, std::sqrt(double(e.dim)));
    cuda::check_launch("golden: softmax's gradient");
    dgemm().run({e.keys, e.dim, e.queries, count}, e.weights(p, true), e.rows_of(wide_do, head),
                e.rows_of(dv, head));
    dgemm().run({e.keys, e.dim, e.queries, count}, e.weights(ds, true), e.rows_of(wide_q, head),
                e.rows_of(dk, head));
    dgemm().run({e.queries, e.dim, e.keys, count}, e.weights(ds), e.rows_of(wide_k, head),
                e.rows_of(dq, head));
  }
  const auto result = [&](const double* y, const Tensor& like) {
    return cuda::download(narrowed(y, nullptr, out, like.shape()));
  };
  return {result(dq, q), result(dk, k), result(dv, v)};
}

}  // namespace h3::golden
