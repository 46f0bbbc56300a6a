#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention.cuh"
#include "kernels/full_attention.h"

// A block takes 128 query rows of one head at a time and walks all keys in tiles of 128. One thread drives
// the copy engine; two warpgroups compute, 64 rows each. While the output of tile j is on the tensor cores, a
// warpgroup turns the scores of tile j + 1 into weights; the two warpgroups fill each other's gaps. Blocks
// stay, one on each multiprocessor.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kTile = 128;  // keys
constexpr int kThreads = (kGroups + 1) * kWarpgroup;
constexpr int kSlots = 2;              // tiles of keys, and of values, in shared memory
constexpr float kScale = 0.12751743f;  // f32(128^-0.5 * log2 e)
constexpr float kLn2 = 0.693147182f;
static_assert(kStay == kTile);

using Tile = HeadTile<kTile>;

struct Shared {
  Queue<Tile, 1> q;
  Queue<Tile, kSlots> k, v;
};

struct Problem {
  CUtensorMap q, k, v;
  std::uint16_t* o;
  float* lse;  // or null
  std::int64_t rows, keys, heads;
};

// ---- the thread that drives the copy engine

template <int kDepth>
__device__ void fetch(Queue<Tile, kDepth>& queue, Place<kDepth>& place, const CUtensorMap& map,
                      std::int64_t row, int head) {
  const std::uint32_t full = shared_address(&queue.full[place.slot]);
  barrier_wait(shared_address(&queue.empty[place.slot]), place.phase ^ 1);
  barrier_expect(full, Tile::kBytes);
  copy_box(&map, 0, int(row), 0, head, shared_address(&queue.slot[place.slot]), full);
  place = place.next();
}

// In the order of use: the values of a tile after the keys of the next.
__device__ void fetch_all(const Problem& problem, Shared& shared) {
  const Schedule schedule(problem.rows, problem.heads);
  Place<1> q;
  Place<kSlots> k, v;
  for (std::int64_t item = schedule.first(); schedule.has(item); item = schedule.next(item)) {
    const Work work = schedule.at(item);
    fetch(shared.k, k, problem.k, 0, work.head);
    fetch(shared.q, q, problem.q, work.row, work.head);
    for (std::int64_t key = kTile; key < problem.keys; key += kTile) {
      fetch(shared.k, k, problem.k, key, work.head);
      fetch(shared.v, v, problem.v, key - kTile, work.head);
    }
    fetch(shared.v, v, problem.v, (problem.keys - 1) / kTile * kTile, work.head);
  }
}

// ---- the warpgroups that compute. A quad of threads holds the four parts of a row sum.

// What a thread's rows carry from tile to tile.
struct Rows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // this thread's part
  float rescale[2];       // a of the last tile
};

__device__ float rcp(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

__device__ float lg2(float x) {
  asm("lg2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

__device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// (x0 + x1) + (x2 + x3).
__device__ float quad_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(~0u, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(~0u, x, 2));
}

// s = q k^T for this warpgroup's 64 rows and 128 keys, channels ascending. In flight on return.
__device__ void multiply_keys(std::uint32_t q, std::uint32_t k, float (&s)[64]) {
  const std::uint64_t a = tile_descriptor(uniform(q)), b = tile_descriptor(uniform(k));
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    const int offset = (step / 4 * Tile::kHalfBytes + step % 4 * kStepBytes) / 16;
    multiply_step<128>(s, a + offset, b + offset, step > 0);
  }
  multiply_commit();
}

// acc += p v for 64 rows and 128 channels, keys ascending. In flight on return.
__device__ void multiply_values(const std::uint32_t (&p)[8][4], std::uint32_t v, float (&acc)[64]) {
  const std::uint64_t b = deep_descriptor(uniform(v), Tile::kHalfBytes);
#pragma unroll
  for (int step = 0; step < 8; ++step)
    multiply_step_of_registers(acc, p[step], b + step * (kDeepStepBytes / 16));
  multiply_commit();
}

__device__ void mask(float (&s)[64], int keys) {
#pragma unroll
  for (int i = 0; i < 64; ++i)
    if (column_of(i) + 2 * place_in_quad() >= keys) s[i] = -INFINITY;
}

// s becomes p. The maximum is taken before scaling: rounding is monotonic, so it is the same.
__device__ void weigh(float (&s)[64], Rows& rows) {
  float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
  for (int i = 0; i < 64; ++i) top[i % 4] = fmaxf(top[i % 4], s[i]);
  float max[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    max[r] = fmaxf(rows.max[r], __fmul_rn(quad_max(fmaxf(top[2 * r], top[2 * r + 1])), kScale));
    rows.rescale[r] = ex2(__fsub_rn(rows.max[r], max[r]));
    rows.max[r] = max[r];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i] = ex2(__fsub_rn(__fmul_rn(s[i], kScale), max[row_of(i)]));
  float sum[2] = {__fadd_rn(s[0], s[1]), __fadd_rn(s[2], s[3])};
#pragma unroll
  for (int i = 4; i < 64; ++i) sum[row_of(i)] = __fadd_rn(sum[row_of(i)], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] = __fmaf_rn(rows.sum[r], rows.rescale[r], sum[r]);
}

__device__ void rescale(float (&acc)[64], const Rows& rows) {
#pragma unroll
  for (int i = 0; i < 64; ++i) acc[i] = __fmul_rn(acc[i], rows.rescale[row_of(i)]);
}

__device__ void write(const Problem& problem, const Work& work, const float (&acc)[64], const Rows& rows) {
  float reciprocals[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = quad_sum(rows.sum[r]);
    reciprocals[r] = rcp(sum);
    const std::int64_t row = work.row + warp_row() + 8 * r;
    if (problem.lse != nullptr && place_in_quad() == 0 && row < problem.rows)
      problem.lse[work.head * problem.rows + row] = __fmaf_rn(rows.max[r], kLn2, __fmul_rn(lg2(sum), kLn2));
  }
  store_head(problem.o, problem.rows, problem.heads, work, acc, reciprocals);
}

__device__ void compute_all(const Problem& problem, Shared& shared) {
  const int group_row = threadIdx.x / kWarpgroup * kGroupRows;
  const int tiles = int((problem.keys + kTile - 1) / kTile);
  const int keys_of_last = int(problem.keys - (tiles - 1) * std::int64_t(kTile));
  const std::uint32_t queries = shared_address(&shared.q.slot[0]) + group_row * kTileRowBytes;
  const auto tile_at = [](auto& queue, const auto& place) { return shared_address(&queue.slot[place.slot]); };

  const Schedule schedule(problem.rows, problem.heads);
  Place<1> q;
  Place<kSlots> k, v;
  for (std::int64_t item = schedule.first(); schedule.has(item); item = schedule.next(item)) {
    const Work work = schedule.at(item);
    if (work.row + group_row >= problem.rows) {  // the other warpgroup has the last rows
      pass(shared.q, q);
      for (int tile = 0; tile < tiles; ++tile) {
        pass(shared.k, k);
        pass(shared.v, v);
      }
      continue;
    }

    float s[64], acc[64] = {};
    std::uint32_t p[8][4];
    Rows rows;
    wait_for(shared.q, q);
    wait_for(shared.k, k);
    multiply_begin();
    multiply_keys(queries, tile_at(shared.k, k), s);
    multiply_wait<0>();
    settle(s);
    release(shared.k, k);
    if (tiles == 1) mask(s, keys_of_last);
    weigh(s, rows);
    round_pairs(s, p);
    wait_for(shared.v, v);

    for (int tile = 1; tile < tiles; ++tile) {
      wait_for(shared.k, k);
      multiply_begin();
      multiply_keys(queries, tile_at(shared.k, k), s);
      multiply_values(p, tile_at(shared.v, v), acc);
      multiply_wait<1>();
      settle(s);
      release(shared.k, k);
      if (tile == tiles - 1) mask(s, keys_of_last);
      weigh(s, rows);
      settle(s);
      wait_for(shared.v, v.next());  // here, because the compiler moves nothing of weigh() below it
      multiply_wait<0>();
      settle(acc);
      release(shared.v, v);
      round_pairs(s, p);
      rescale(acc, rows);
    }
    release(shared.q, q);

    multiply_begin();
    multiply_values(p, tile_at(shared.v, v), acc);
    multiply_wait<0>();
    settle(acc);
    release(shared.v, v);
    write(problem, work, acc, rows);
  }
}

__global__ void __launch_bounds__(kThreads, 1) attention_kernel(const __grid_constant__ Problem problem) {
  extern __shared__ __align__(1024) std::byte memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    init(shared.q);
    init(shared.k);
    init(shared.v);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x >= kGroups * kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == kGroups * kWarpgroup) fetch_all(problem, shared);
  } else {
    take_registers<232>();
    compute_all(problem, shared);
  }
}

// ---- host

void require_operand(const char* what, const Tensor& tensor) {
  require(!tensor.empty() && tensor.dtype() == DType::bf16, "full_attention: {}: {}, expected bf16", what,
          name_of(tensor.dtype()));
  require(tensor.device() == Device::cuda, "full_attention: {} lies on the CPU, expected the GPU", what);
}

void require_heads(const char* what, const Tensor& tensor) {
  require_operand(what, tensor);
  require(tensor.shape().size() == 3 && tensor.elements() > 0 && tensor.cols() == kHeadDim,
          "full_attention: {}: shape {}, expected rows x heads x {}", what, to_string(tensor.shape()),
          kHeadDim);
  constexpr std::int64_t kLimit = (std::int64_t(1) << 31) - kTile;  // coordinates of the copy engine
  require(tensor.shape()[0] < kLimit && tensor.shape()[1] < kLimit,
          "full_attention: {}: shape {}, expected less than 2^31 - {} rows and heads", what,
          to_string(tensor.shape()), kTile);
}

}  // namespace

void full_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& o, Tensor* lse,
                    Stream stream) {
  require_heads("q", q);
  require_heads("k", k);
  require_heads("v", v);
  const std::int64_t rows = q.shape()[0], heads = q.shape()[1], keys = k.shape()[0], width = heads * kHeadDim;
  require(k.shape()[1] == heads, "full_attention: k has {} heads, q has {}", k.shape()[1], heads);
  require(v.shape() == k.shape(), "full_attention: v: shape {}, expected k's {}", to_string(v.shape()),
          to_string(k.shape()));
  require_operand("o", o);
  require(o.shape() == Shape({rows, width}), "full_attention: o: shape {}, expected {}x{}",
          to_string(o.shape()), rows, width);

  if (lse != nullptr) require_tensor("full_attention", "lse", *lse, DType::fp32, {heads, rows});

  const auto map = [&](const Tensor& tensor) {
    return heads_map(tensor.bytes(), tensor.shape()[0], heads, kTile);
  };
  const Problem problem{map(q),
                        map(k),
                        map(v),
                        reinterpret_cast<std::uint16_t*>(o.bytes()),
                        lse != nullptr ? lse->data<float>() : nullptr,
                        rows,
                        keys,
                        heads};
  const std::int64_t items = (rows + kTile - 1) / kTile * heads;
  check(cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)),
        "full_attention: asking for shared memory");
  attention_kernel<<<unsigned(std::min<std::int64_t>(items, multiprocessors())), kThreads, sizeof(Shared),
                     stream>>>(problem);
  check_launch("full_attention");
}

}  // namespace h3::kernels::cuda
