// What the attention kernels of Hopper, forward and backward, share: heads of 128 channels as two halves in
// shared memory, queues of such tiles between the copying thread and the computing warpgroups, and the way a
// result leaves the registers.
//
// A thread of a warpgroup holds elements of two rows, g and g + 8 of its warp's sixteen. Element i of its
// sums belongs to row_of(i) and to column_of(i) + 2 t, where t is its place in a quad of threads.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.cuh"

namespace h3::cuda::hopper {

inline constexpr int kHeadDim = 128;
inline constexpr int kGroups = 2;                   // warpgroups that compute
inline constexpr int kGroupRows = 64;               // rows of a warpgroup
inline constexpr int kStay = kGroups * kGroupRows;  // rows that a block holds while it walks the others

// Rows of one head in shared memory: two halves of 64 channels each.
template <int kRows>
struct HeadTile {
  static constexpr int kHalfBytes = kRows * kTileRowBytes;
  static constexpr int kBytes = 2 * kHalfBytes;
  alignas(1024) std::byte bytes[kBytes];
};

// Who reads a slot: only wgmma, for a whole warp, or every lane with loads of its own. Then every lane says
// that it is done: racecheck lets none speak for another.
enum class ReadBy { warps, lanes };

// A queue of slots in shared memory: the copying thread waits until a slot is empty, the others until it is
// full.
template <class Slot, int kDepth, ReadBy kReadBy = ReadBy::warps>
struct Queue {
  Slot slot[kDepth];
  std::uint64_t full[kDepth], empty[kDepth];
};

// Where a thread stands in a queue. All walk it in the same order.
template <int kDepth>
struct Place {
  int slot = 0;
  std::uint32_t phase = 0;

  __device__ Place next() const { return slot + 1 < kDepth ? Place{slot + 1, phase} : Place{0, phase ^ 1}; }
};

template <class Slot, int kDepth, ReadBy kReadBy>
__device__ void init(Queue<Slot, kDepth, kReadBy>& queue) {
  constexpr int kReaders = kGroups * kWarpgroup / (kReadBy == ReadBy::lanes ? 1 : 32);
  for (int slot = 0; slot < kDepth; ++slot) {
    barrier_init(shared_address(&queue.full[slot]), 1);
    barrier_init(shared_address(&queue.empty[slot]), kReaders);
  }
}

template <class Slot, int kDepth, ReadBy kReadBy>
__device__ void wait_for(Queue<Slot, kDepth, kReadBy>& queue, const Place<kDepth>& place) {
  barrier_wait(shared_address(&queue.full[place.slot]), place.phase);
}

// This warp has read the slot.
template <class Slot, int kDepth, ReadBy kReadBy>
__device__ void release(Queue<Slot, kDepth, kReadBy>& queue, Place<kDepth>& place) {
  if (kReadBy == ReadBy::lanes || threadIdx.x % 32 == 0)
    barrier_arrive(shared_address(&queue.empty[place.slot]));
  place = place.next();
}

// Goes on without reading the slot.
template <class Slot, int kDepth, ReadBy kReadBy>
__device__ void pass(Queue<Slot, kDepth, kReadBy>& queue, Place<kDepth>& place) {
  wait_for(queue, place);
  release(queue, place);
}

// Rows [row, row + kStay) of one head.
struct Work {
  int head;
  std::int64_t row;
};

// The work of all blocks, head by head, so that blocks that run at the same time walk the same rows. A
// remainder of less than kStay rows comes after everything else: a block ends with its shortest work.
class Schedule {
 public:
  __device__ Schedule(std::int64_t rows, std::int64_t heads)
      : whole_per_head_(rows / kStay),
        whole_(whole_per_head_ * heads),
        count_(rows % kStay == 0 ? whole_ : whole_ + heads) {}

  __device__ std::int64_t first() const { return blockIdx.x; }
  __device__ std::int64_t next(std::int64_t item) const { return item + gridDim.x; }
  __device__ bool has(std::int64_t item) const { return item < count_; }
  __device__ Work at(std::int64_t item) const {
    if (item >= whole_) return {int(item - whole_), whole_per_head_ * kStay};
    return {int(item / whole_per_head_), item % whole_per_head_ * kStay};
  }

 private:
  std::int64_t whole_per_head_, whole_, count_;
};

// ---- elements of a thread

__device__ constexpr int row_of(int i) { return i / 2 % 2; }
__device__ constexpr int column_of(int i) { return i / 4 * 8 + i % 2; }
__device__ inline int place_in_quad() { return threadIdx.x % 4; }
__device__ inline int warp_row() { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4; }  // of the first row

__device__ inline float ex2(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

// The compiler keeps what depends on it in uniform registers, where the multiply wants its descriptors.
__device__ inline std::uint32_t uniform(std::uint32_t x) { return __shfl_sync(~0u, x, 0); }

// R(x), in the order in which the multiply reads its left operand from registers.
template <int N>
__device__ void round_pairs(const float (&x)[N], std::uint32_t (&pairs)[N / 8][4]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) pairs[i / 4][i % 4] = to_bf16_pair(x[2 * i], x[2 * i + 1]);
}

// Word i of thread t of a quad becomes word t of thread i.
__device__ inline void transpose_quad(std::uint32_t* w) {
  const auto exchange = [](bool second, int lanes, std::uint32_t& a, std::uint32_t& b) {
    const std::uint32_t received = __shfl_xor_sync(~0u, second ? a : b, lanes);
    (second ? a : b) = received;
  };
  const bool odd = place_in_quad() & 1, upper = place_in_quad() & 2;
  exchange(odd, 1, w[0], w[1]);
  exchange(odd, 1, w[2], w[3]);
  exchange(upper, 2, w[0], w[2]);
  exchange(upper, 2, w[1], w[3]);
}

// R(acc * factor of its row) to rows [row, ...) of one head of a tensor (rows, heads, 128): 16 bytes a
// thread, 64 a quad at a time. `row` is that of the block.
__device__ inline void store_head(std::uint16_t* tensor, std::int64_t rows, std::int64_t heads,
                                  const Work& work, const float (&acc)[64], const float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::int64_t row = work.row + warp_row() + 8 * r;
    std::uint16_t* to = tensor + (row * heads + work.head) * kHeadDim + place_in_quad() * 8;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {  // of 16 groups of eight columns
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &acc[4 * (j + i) + 2 * r];
        words[i] = to_bf16_pair(__fmul_rn(pair[0], factor[r]), __fmul_rn(pair[1], factor[r]));
      }
      transpose_quad(words);
      if (row < rows)
        *reinterpret_cast<uint4*>(to + 8 * j) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

}  // namespace h3::cuda::hopper
