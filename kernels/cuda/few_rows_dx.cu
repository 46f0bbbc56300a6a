#include <cuda_bf16.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/tensor_map.h"

// dX is a few thousand sums of one long chain each. A chain takes the time of its steps one after the other,
// so a warp has one for each of 16 columns and 8 rows and does nothing but step: what the next slot holds is
// fetched into registers between the steps of the slot before. Four such warps share whole lines of the
// weight; narrower tiles would occupy more multiprocessors, but memory answers half lines no faster than
// whole ones. One more warp copies the weight and dY into a ring of slots far ahead.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kMultipliers = 4;  // warps, 16 columns of dX each
constexpr int kColumns = kMultipliers * 16;
static_assert(kColumns == kTileColumns);
constexpr int kThreads = (kMultipliers + 1) * 32;
constexpr int kSlotDepth = 2 * kTileColumns;
constexpr int kSteps = kSlotDepth / 16;
constexpr int kWeightBytes = kSlotDepth * kTileRowBytes;
constexpr int kPartBytes = kFewRowsOfDx * kTileRowBytes;  // of dY: kTileColumns of depth
constexpr int kSlotBytes = kWeightBytes + kSlotDepth / kTileColumns * kPartBytes;
constexpr int kAlignment = 1024;
constexpr int kSlots = 12;
constexpr int kUsedBytes = kAlignment + kSlots * kSlotBytes + Ring<kSlots, kSlotBytes>::kBarrierBytes;
static_assert(kUsedBytes <= 227 * 1024 && kSlotBytes % kAlignment == 0 && kWeightBytes % kAlignment == 0);

struct FewRowsDx {
  CUtensorMap dy, weight;
  void* dx;
  std::int64_t rows, columns;
  int slots;  // of the whole depth
  bool fp32;
};

using Slots = Ring<kSlots, kSlotBytes>;

__device__ void copy_slots(const FewRowsDx& call, Slots ring, int column) {
  for (int i = 0; i < call.slots; ++i, ring.next()) {
    const int depth = i * kSlotDepth;
    barrier_wait(ring.is_empty(), ring.phase ^ 1);
    barrier_expect(ring.is_full(), kSlotBytes);
    copy_box(&call.weight, column, depth, ring.memory(), ring.is_full());
    for (int part = 0; part < kSlotDepth / kTileColumns; ++part)
      copy_box(&call.dy, depth + part * kTileColumns, 0, ring.memory() + kWeightBytes + part * kPartBytes,
               ring.is_full());
  }
}

// What a lane multiplies of one slot.
struct Operands {
  std::uint32_t weight[kSteps][4], dy[kSteps / 2][4];

  __device__ void multiply(int step, float (&sums)[4]) const {
    const std::uint32_t b[2] = {dy[step / 2][step % 2 * 2], dy[step / 2][step % 2 * 2 + 1]};
    multiply_step(sums, weight[step], b);
  }
};

// Where a lane finds them: places of step 0, relative to the slot. The copy engine has swizzled both tiles,
// 16-byte parts by the row.
struct Places {
  std::uint32_t weight, dy_row, dy_part, swizzle;

  __device__ Places(int warp, int lane)
      : weight((lane / 16 * 8 + lane % 8) * kTileRowBytes + ((warp * 2 + lane / 8 % 2) ^ (lane % 8)) * 16),
        dy_row(kWeightBytes + lane % 8 * kTileRowBytes),
        dy_part(lane / 8),
        swizzle(lane % 8) {}

  __device__ void load(Operands& operands, int step, std::uint32_t slot) const {
    load_blocks_transposed(operands.weight[step], slot + weight + step * 16 * kTileRowBytes);
    if (step % 2 == 0) {  // of dY, two steps at once
      const int part = step * 2 % 8, tile = step / 4;
      load_blocks(operands.dy[step / 2],
                  slot + dy_row + tile * kPartBytes + ((dy_part + part) ^ swizzle) * 16);
    }
  }
};

__device__ void multiply_slots(const FewRowsDx& call, Slots ring, float (&sums)[4], int warp, int lane) {
  const Places places(warp, lane);
  Operands now, next;
  barrier_wait(ring.is_full(), ring.phase);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) places.load(now, step, ring.memory());
  for (int i = 1; i < call.slots; ++i) {
    const std::uint32_t done = ring.is_empty();
    ring.next();
    now.multiply(0, sums);
    barrier_wait(ring.is_full(), ring.phase);
    places.load(next, 0, ring.memory());
#pragma unroll
    for (int step = 1; step < kSteps; ++step) {
      now.multiply(step, sums);
      places.load(next, step, ring.memory());
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(done);
    now = next;
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) now.multiply(step, sums);
}

__global__ __launch_bounds__(kThreads, 1) void few_rows_dx_kernel(const __grid_constant__ FewRowsDx call) {
  extern __shared__ std::uint8_t memory[];
  const std::uint32_t slots = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  const Slots ring{slots, slots + kSlots * kSlotBytes};
  if (threadIdx.x == 0) ring.init(kMultipliers);
  __syncthreads();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = blockIdx.x * kColumns;
  if (warp == kMultipliers) {
    if (lane == 0) {
      wait_for_predecessor();
      let_successor_start();
      copy_slots(call, ring, column);
    }
    return;
  }
  float sums[4] = {};
  multiply_slots(call, ring, sums, warp, lane);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = lane % 4 * 2 + i % 2, at = column + warp * 16 + lane / 4 + i / 2 * 8;
    if (row >= call.rows || at >= call.columns) continue;
    if (call.fp32)
      static_cast<float*>(call.dx)[row * call.columns + at] = sums[i];
    else
      static_cast<__nv_bfloat16*>(call.dx)[row * call.columns + at] = __float2bfloat16_rn(sums[i]);
  }
}

}  // namespace

void few_rows_dx(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream) {
  const std::int64_t depth = dy.cols();
  FewRowsDx call{};
  call.dy = tensor_map(dy.bytes(), dy.rows(), depth, kFewRowsOfDx);
  call.weight = tensor_map(weight.bytes(), depth, dx.cols(), kSlotDepth);
  call.dx = dx.bytes();
  call.rows = dx.rows();
  call.columns = dx.cols();
  call.slots = int((depth + kSlotDepth - 1) / kSlotDepth);
  call.fp32 = dx.dtype() == DType::fp32;
  launch_early("linear_input_gradient of few rows", few_rows_dx_kernel,
               unsigned((dx.cols() + kColumns - 1) / kColumns), kThreads, kUsedBytes, stream, call);
}

}  // namespace h3::kernels::cuda
