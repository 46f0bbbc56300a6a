// Instructions of Hopper that strict products are made of, one each: barriers in shared memory, the bulk
// tensor copy engine, registers of a warpgroup. The multiply itself is in wgmma.cuh.
//
// What they rely on: a tile in shared memory is `rows` rows of 64 BF16 words (128 bytes), 1024-byte aligned,
// written by the copy engine with the 128-byte swizzle, which is also the layout that the matrix instruction
// reads.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace h3::cuda::hopper {

inline constexpr int kWarpgroup = 128;   // threads that issue one matrix instruction
inline constexpr int kTileColumns = 64;  // BF16 words in a row of a tile
inline constexpr int kTileRowBytes = 128;
inline constexpr int kStepBytes = 32;  // 16 words of depth, one step of the chain

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- barriers in shared memory; a barrier is a 64-bit word, its phase alternates between 0 and 1

__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ inline void barrier_init_fence() {  // before the copy engine uses them
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t phase) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

// The threads of one warpgroup; `name` 1 to 15 (0 is __syncthreads).
__device__ inline void warpgroup_sync(int name) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(kWarpgroup) : "memory");
}

// ---- copy engine: a box of a matrix at (column, row); what lies outside of the matrix arrives as zeros

__device__ inline void copy_box(const CUtensorMap* map, int column, int row, std::uint32_t to,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same for a box of four extents at (x, y, z, w), innermost first.
__device__ inline void copy_box(const CUtensorMap* map, int x, int y, int z, int w, std::uint32_t to,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

// `bytes` (a multiple of 16) as they lie; both sides 16-byte aligned.
__device__ inline void copy_bytes(const void* from, std::uint32_t to, std::uint32_t bytes,
                                  std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// ---- launches: wait until the one before has finished and its writes are seen; let the next one be set up

__device__ inline void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void let_successor_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- registers: what the copying warpgroup does not need goes to the multiplying ones

template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- results on their way out

// Two 8x8 blocks of BF16 pairs, transposed: lane 8 m + i names the place (16 bytes) of column i of block m.
__device__ inline void store_transposed(std::uint32_t place, std::uint32_t block0, std::uint32_t block1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(place), "r"(block0),
               "r"(block1)
               : "memory");
}

__device__ inline uint4 load_part(std::uint32_t place) {
  uint4 part;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
               : "r"(place)
               : "memory");
  return part;
}

__device__ inline std::uint32_t to_bf16_pair(float low, float high) {  // to nearest even
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

}  // namespace h3::cuda::hopper
