// Slots of shared memory that go round between one copying thread and the warps that multiply.
#pragma once

#include "kernels/cuda/hopper.cuh"

namespace h3::cuda::hopper {

// Behind the slots lie two barriers for each: it is full, it is empty again.
template <int kSlots, int kSlotBytes>
struct Ring {
  std::uint32_t slots, barriers;  // addresses
  int slot = 0;
  std::uint32_t phase = 0;

  static constexpr int kBarrierBytes = kSlots * 16;

  // By one thread; the others wait for it. `readers` arrive at a slot that they are done with.
  __device__ void init(int readers) const {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(barriers + i * 8, 1);
      barrier_init(barriers + (kSlots + i) * 8, readers);
    }
    barrier_init_fence();
  }
  __device__ std::uint32_t memory() const { return slots + slot * kSlotBytes; }
  __device__ std::uint32_t is_full() const { return barriers + slot * 8; }
  __device__ std::uint32_t is_empty() const { return barriers + (kSlots + slot) * 8; }
  __device__ std::uint32_t was_empty(int before) const {  // of the slot so many places back
    return barriers + (kSlots + (slot >= before ? slot - before : slot - before + kSlots)) * 8;
  }
  __device__ void next() {
    if (++slot == kSlots) slot = 0, phase ^= 1;
  }
};

}  // namespace h3::cuda::hopper
