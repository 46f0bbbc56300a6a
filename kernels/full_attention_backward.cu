#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/attention.cuh"
#include "kernels/full_attention_backward.h"

// Three launches. The first makes delta. In the other two a block holds 128 rows of one head and walks the
// rows of the other side: one holds keys and values and walks queries and do (dk, dv), one holds queries and
// do and walks keys and values (dq). One thread drives the copy engine; two warpgroups compute, 64 held rows
// each. P and dS stay in the registers in which the matrix instruction left them, which are those in which it
// reads its left operand. While one warpgroup turns scores into weights, the other keeps the tensor cores
// busy.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kThreads = (kGroups + 1) * kWarpgroup;
constexpr float kScale = 0.088388346f;  // f32(128^-0.5)
constexpr float kLog2e = 1.44269502f;

// lse and delta of 64 query rows of a head, one behind the other; a head is filled up to whole blocks.
constexpr int kTermRows = 64;
struct Terms {
  float lse[kTermRows], delta[kTermRows];
};

std::int64_t term_blocks(std::int64_t rows) { return (rows + kStay - 1) / kStay * (kStay / kTermRows); }

// ---- delta

constexpr int kDeltaThreads = 256;
constexpr int kParts = 16;  // threads of a row, eight channels each

__device__ float pair_sum(std::uint32_t a, std::uint32_t b) {
  const auto product = [](std::uint32_t x, std::uint32_t y) {  // exact
    return __fmul_rn(__uint_as_float(x), __uint_as_float(y));
  };
  return __fadd_rn(product(a << 16, b << 16), product(a & 0xffff0000u, b & 0xffff0000u));
}

// A block takes 64 rows of one head.
__global__ void __launch_bounds__(kDeltaThreads)
    delta_kernel(const std::uint16_t* o, const std::uint16_t* dout, const float* lse, Terms* terms,
                 std::int64_t rows, std::int64_t heads, std::int64_t blocks) {
  const std::int64_t head = blockIdx.x / blocks, block = blockIdx.x % blocks;
  Terms& to = terms[head * blocks + block];
  const int part = threadIdx.x % kParts;
  for (int i = threadIdx.x / kParts; i < kTermRows; i += kDeltaThreads / kParts) {
    const std::int64_t row = block * kTermRows + i, at = (row * heads + head) * kHeadDim + part * 8;
    const bool inside = row < rows;
    const uint4 zero{};
    const uint4 a = inside ? *reinterpret_cast<const uint4*>(dout + at) : zero;
    const uint4 b = inside ? *reinterpret_cast<const uint4*>(o + at) : zero;
    float sum = pair_sum(a.x, b.x);
    sum = __fadd_rn(sum, pair_sum(a.y, b.y));
    sum = __fadd_rn(sum, pair_sum(a.z, b.z));
    sum = __fadd_rn(sum, pair_sum(a.w, b.w));
#pragma unroll
    for (int distance = kParts / 2; distance > 0; distance /= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, distance));
    if (part == 0) {
      to.lse[i] = inside ? lse[head * rows + row] : 0.0f;
      to.delta[i] = sum;
    }
  }
}

// ---- the two products

enum class Holds { keys, queries };

template <Holds kHolds>
struct Kernel {
  static constexpr bool kKeys = kHolds == Holds::keys;
  static constexpr int kWalk = 64;  // rows of a slot
  static constexpr int kSlots = 4;
  using Held = HeadTile<kStay>;
  using Walked = HeadTile<kWalk>;
  static constexpr int kSums = kWalk / 2;  // scores of a thread

  struct HeldSlot {
    Held first, second;  // keys and values, or queries and do
  };
  struct WalkedSlot {
    Walked first, second;  // queries and do, or keys and values
    Terms terms;           // of the queries, where they are walked
  };
  struct Shared {
    Queue<HeldSlot, 1> held;
    Queue<WalkedSlot, kSlots, kKeys ? ReadBy::lanes : ReadBy::warps> walked;  // lanes read terms
  };
  static constexpr int kHeldBytes = 2 * Held::kBytes;
  static constexpr int kWalkedBytes = 2 * Walked::kBytes + (kKeys ? int(sizeof(Terms)) : 0);
};
static_assert(Kernel<Holds::keys>::kWalk == kTermRows);

struct Problem {
  CUtensorMap held_first, held_second, walked_first, walked_second;
  const Terms* terms;
  std::uint16_t* gradient[2];  // dk and dv, or dq
  std::int64_t held, walked, heads, term_blocks;
};

template <class K>
__device__ void fetch_all(const Problem& problem, typename K::Shared& shared) {
  const Schedule schedule(problem.held, problem.heads);
  Place<1> h;
  Place<K::kSlots> w;
  for (std::int64_t item = schedule.first(); schedule.has(item); item = schedule.next(item)) {
    const Work work = schedule.at(item);
    {
      auto& slot = shared.held.slot[0];
      const std::uint32_t full = shared_address(&shared.held.full[0]);
      barrier_wait(shared_address(&shared.held.empty[0]), h.phase ^ 1);
      barrier_expect(full, K::kHeldBytes);
      copy_box(&problem.held_first, 0, int(work.row), 0, work.head, shared_address(&slot.first), full);
      copy_box(&problem.held_second, 0, int(work.row), 0, work.head, shared_address(&slot.second), full);
      h = h.next();
    }
    for (std::int64_t row = 0; row < problem.walked; row += K::kWalk) {
      auto& slot = shared.walked.slot[w.slot];
      const std::uint32_t full = shared_address(&shared.walked.full[w.slot]);
      barrier_wait(shared_address(&shared.walked.empty[w.slot]), w.phase ^ 1);
      barrier_expect(full, K::kWalkedBytes);
      copy_box(&problem.walked_first, 0, int(row), 0, work.head, shared_address(&slot.first), full);
      copy_box(&problem.walked_second, 0, int(row), 0, work.head, shared_address(&slot.second), full);
      if constexpr (K::kKeys)
        copy_bytes(&problem.terms[work.head * problem.term_blocks + row / kTermRows],
                   shared_address(&slot.terms), sizeof(Terms), full);
      w = w.next();
    }
  }
}

// sums = a b^T for this warpgroup's 64 held rows and the walked rows, channels ascending. In flight on
// return.
template <class K>
__device__ void multiply_channels(std::uint32_t held, std::uint32_t walked, float (&sums)[K::kSums]) {
  const std::uint64_t a = tile_descriptor(uniform(held)), b = tile_descriptor(uniform(walked));
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int inside = step % 4 * kStepBytes;
    multiply_step<K::kWalk>(sums, a + (step / 4 * K::Held::kHalfBytes + inside) / 16,
                            b + (step / 4 * K::Walked::kHalfBytes + inside) / 16, step > 0);
  }
  multiply_commit();
}

// acc += p b for 64 held rows and 128 channels, walked rows ascending. In flight on return.
template <class K>
__device__ void multiply_rows(const std::uint32_t (&p)[K::kWalk / 16][4], std::uint32_t walked,
                              float (&acc)[64]) {
  const std::uint64_t b = deep_descriptor(uniform(walked), K::Walked::kHalfBytes);
#pragma unroll
  for (int step = 0; step < K::kWalk / 16; ++step)
    multiply_step_of_registers(acc, p[step], b + step * (kDeepStepBytes / 16));
  multiply_commit();
}

// A term (lse or delta) of the query row that element i belongs to: of its column where queries are walked,
// of its row where they are held.
template <class K>
struct TermsOf {
  const float* walked;  // in shared memory
  float held[2];

  __device__ float operator()(int i) const {
    if constexpr (K::kKeys)
      return walked[column_of(i) + 2 * place_in_quad()];
    else
      return held[row_of(i)];
  }
};

template <class K>
__device__ void compute_all(const Problem& problem, typename K::Shared& shared) {
  const int group = threadIdx.x / kWarpgroup;
  const int tiles = int((problem.walked + K::kWalk - 1) / K::kWalk);
  const int rows_of_last = int(problem.walked - (tiles - 1) * std::int64_t(K::kWalk));
  const std::uint32_t held_offset = group * kGroupRows * kTileRowBytes;
  const std::uint32_t held_first = shared_address(&shared.held.slot[0].first) + held_offset;
  const std::uint32_t held_second = shared_address(&shared.held.slot[0].second) + held_offset;

  const Schedule schedule(problem.held, problem.heads);
  Place<1> h;
  Place<K::kSlots> w;
  for (std::int64_t item = schedule.first(); schedule.has(item); item = schedule.next(item)) {
    const Work work = schedule.at(item);
    if (work.row + group * kGroupRows >= problem.held) {  // the other warpgroup has the last rows
      pass(shared.held, h);
      for (int tile = 0; tile < tiles; ++tile) pass(shared.walked, w);
      continue;
    }

    TermsOf<K> lse{}, delta{};
    if constexpr (!K::kKeys) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const std::int64_t row = work.row + warp_row() + 8 * r;
        const Terms& terms = problem.terms[work.head * problem.term_blocks + row / kTermRows];
        lse.held[r] = terms.lse[row % kTermRows];
        delta.held[r] = terms.delta[row % kTermRows];
      }
    }
    float by_gradient[64] = {}, by_weight[64] = {};  // dk or dq, and dv
    wait_for(shared.held, h);

    for (int tile = 0; tile < tiles; ++tile) {
      float p[K::kSums], ds[K::kSums];
      std::uint32_t weights[K::kWalk / 16][4], gradients[K::kWalk / 16][4];
      auto& slot = shared.walked.slot[w.slot];
      const std::uint32_t first = shared_address(&slot.first), second = shared_address(&slot.second);
      wait_for(shared.walked, w);
      if constexpr (K::kKeys) {
        lse.walked = slot.terms.lse;
        delta.walked = slot.terms.delta;
      }
      multiply_begin();
      multiply_channels<K>(held_first, first, p);
      multiply_channels<K>(held_second, second, ds);
      multiply_wait<1>();
      settle(p);
#pragma unroll
      for (int i = 0; i < K::kSums; ++i) p[i] = ex2(__fmul_rn(__fmaf_rn(p[i], kScale, -lse(i)), kLog2e));
      if constexpr (K::kKeys) round_pairs(p, weights);
      multiply_wait<0>();
      settle(ds);
#pragma unroll
      for (int i = 0; i < K::kSums; ++i)
        ds[i] = __fmul_rn(__fmul_rn(p[i], __fsub_rn(ds[i], delta(i))), kScale);
      // Behind the last walked row stand zeros. A query's weight there is 1, a key's can be infinite.
      if (tile == tiles - 1) {
#pragma unroll
        for (int i = 0; i < K::kSums; ++i)
          if (column_of(i) + 2 * place_in_quad() >= rows_of_last) ds[i] = 0.0f;
      }
      round_pairs(ds, gradients);
      multiply_begin();
      if constexpr (K::kKeys) multiply_rows<K>(weights, second, by_weight);
      multiply_rows<K>(gradients, first, by_gradient);
      multiply_wait<0>();
      settle(by_gradient);
      if constexpr (K::kKeys) settle(by_weight);
      release(shared.walked, w);
    }
    release(shared.held, h);
    store_head(problem.gradient[0], problem.held, problem.heads, work, by_gradient, {1.0f, 1.0f});
    if constexpr (K::kKeys)
      store_head(problem.gradient[1], problem.held, problem.heads, work, by_weight, {1.0f, 1.0f});
  }
}

template <class K>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(const __grid_constant__ Problem problem) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<typename K::Shared*>(memory);
  if (threadIdx.x == 0) {
    init(shared.held);
    init(shared.walked);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x >= kGroups * kWarpgroup) {
    give_registers<24>();
    if (threadIdx.x == kGroups * kWarpgroup) fetch_all<K>(problem, shared);
  } else {
    take_registers<240>();
    compute_all<K>(problem, shared);
  }
}

// ---- host

template <class K>
void launch(const Problem& problem, Stream stream) {
  constexpr int kBytes = sizeof(typename K::Shared);
  const std::int64_t items = (problem.held + kStay - 1) / kStay * problem.heads;
  check(cudaFuncSetAttribute(backward_kernel<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "full_attention_backward: asking for shared memory");
  backward_kernel<K>
      <<<unsigned(std::min<std::int64_t>(items, multiprocessors())), kThreads, kBytes, stream>>>(problem);
  check_launch("full_attention_backward");
}

void require_heads(const char* what, const Tensor& tensor) {
  constexpr std::int64_t kLimit = (std::int64_t(1) << 31) - kStay;  // coordinates of the copy engine
  require(
      !tensor.empty() && tensor.shape().size() == 3 && tensor.elements() > 0 && tensor.cols() == kHeadDim &&
          tensor.shape()[0] < kLimit && tensor.shape()[1] < kLimit,
      "full_attention_backward: {}: shape {}, expected rows x heads x {}, less than 2^31 - {} rows and heads",
      what, to_string(tensor.shape()), kHeadDim, kStay);
}

}  // namespace

std::int64_t full_attention_backward_workspace(std::int64_t rows, std::int64_t heads) {
  return term_blocks(rows) * heads * std::int64_t(sizeof(Terms) / sizeof(float));
}

void full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                             const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv,
                             Tensor& workspace, Stream stream) {
  require_heads("q", q);
  require_heads("k", k);
  const std::int64_t rows = q.shape()[0], keys = k.shape()[0], heads = q.shape()[1], width = heads * kHeadDim;
  const auto require_bf16 = [](const char* what, const Tensor& tensor, const Shape& shape) {
    require_tensor("full_attention_backward", what, tensor, DType::bf16, shape);
  };
  require_bf16("q", q, {rows, heads, kHeadDim});
  require_bf16("k", k, {keys, heads, kHeadDim});
  require_bf16("v", v, k.shape());
  require_bf16("o", o, {rows, width});
  require_bf16("dout", dout, {rows, width});
  require_tensor("full_attention_backward", "lse", lse, DType::fp32, {heads, rows});
  require_bf16("dq", dq, q.shape());
  require_bf16("dk", dk, k.shape());
  require_bf16("dv", dv, k.shape());
  require_tensor("full_attention_backward", "workspace", workspace, DType::fp32,
                 {full_attention_backward_workspace(rows, heads)});

  const std::int64_t blocks = term_blocks(rows);
  const auto input = [](const Tensor& tensor) {
    return reinterpret_cast<const std::uint16_t*>(tensor.bytes());
  };
  const auto output = [](Tensor& tensor) { return reinterpret_cast<std::uint16_t*>(tensor.bytes()); };
  Terms* terms = reinterpret_cast<Terms*>(workspace.bytes());
  delta_kernel<<<unsigned(blocks * heads), kDeltaThreads, 0, stream>>>(
      input(o), input(dout), lse.data<float>(), terms, rows, heads, blocks);
  check_launch("full_attention_backward: delta");

  using Keys = Kernel<Holds::keys>;
  using Queries = Kernel<Holds::queries>;
  const auto map = [&](const Tensor& tensor, int box_rows) {
    return heads_map(tensor.bytes(), tensor.shape()[0], heads, box_rows);
  };
  launch<Keys>({map(k, kStay),
                map(v, kStay),
                map(q, Keys::kWalk),
                map(dout, Keys::kWalk),
                terms,
                {output(dk), output(dv)},
                keys,
                rows,
                heads,
                blocks},
               stream);
  launch<Queries>({map(q, kStay),
                   map(dout, kStay),
                   map(k, Queries::kWalk),
                   map(v, Queries::kWalk),
                   terms,
                   {output(dq), nullptr},
                   rows,
                   keys,
                   heads,
                   blocks},
                  stream);
}

}  // namespace h3::kernels::cuda
