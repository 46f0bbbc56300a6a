#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"

// Every element of dW is one step of its chain, so writing it is all the work. A block writes whole rows of
// dW, 16 at a time: each warp keeps x for its 224 columns in registers and fetches the rows' dY while it
// writes the 16 rows before.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kRows = 16;  // of dW at a time
constexpr int kWarpColumns = 224;
constexpr int kGroupColumns = 32;  // whose sums a warp holds at a time, four instructions
constexpr int kGroups = kWarpColumns / kGroupColumns;
constexpr int kMostWarps = 12;

struct FewRowsDw {
  const std::uint16_t *dy, *x;  // BF16 words
  void* dw;
  std::int64_t depth, rows, columns;
};

// Words d and d + 1 of a column, zero behind the depth and the columns.
__device__ std::uint32_t pair_of(const std::uint16_t* matrix, std::int64_t depth, std::int64_t columns, int d,
                                 std::int64_t column) {
  const auto word = [&](int at) -> std::uint32_t {
    return at < depth && column < columns ? matrix[at * columns + column] : 0;
  };
  return word(d) | word(d + 1) << 16;
}

__device__ void load_dy(const FewRowsDw& call, std::int64_t row, int lane, std::uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    a[i] = pair_of(call.dy, call.depth, call.rows, lane % 4 * 2 + i / 2 * 8, row + i % 2 * 8);
}

// Columns are dealt so that a lane ends up with eight that lie side by side: row 2 t + e of instruction j's B
// is column 8 t + 2 j + e of the group.
__device__ std::int64_t column_of(int instruction, int row_of_b) {
  return row_of_b / 2 * 8 + instruction * 2 + row_of_b % 2;
}

template <class T>
__device__ void store_eight(T* to, const float (&sums)[4][4], int half);

template <>
__device__ void store_eight(__nv_bfloat16* to, const float (&sums)[4][4], int half) {
  uint4 words;
  words.x = to_bf16_pair(sums[0][half * 2], sums[0][half * 2 + 1]);
  words.y = to_bf16_pair(sums[1][half * 2], sums[1][half * 2 + 1]);
  words.z = to_bf16_pair(sums[2][half * 2], sums[2][half * 2 + 1]);
  words.w = to_bf16_pair(sums[3][half * 2], sums[3][half * 2 + 1]);
  __stcs(reinterpret_cast<uint4*>(to), words);
}

template <>
__device__ void store_eight(float* to, const float (&sums)[4][4], int half) {
#pragma unroll
  for (int j = 0; j < 4; j += 2)
    __stcs(reinterpret_cast<float4*>(to) + j / 2,
           make_float4(sums[j][half * 2], sums[j][half * 2 + 1], sums[j + 1][half * 2],
                       sums[j + 1][half * 2 + 1]));
}

template <class T>
__global__ __launch_bounds__(kMostWarps * 32,
                             1) void few_rows_dw_kernel(const __grid_constant__ FewRowsDw call) {
  wait_for_predecessor();
  let_successor_start();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t first = (std::int64_t(blockIdx.y) * (blockDim.x / 32) + warp) * kWarpColumns;
  std::uint32_t x[kGroups][4][2];
#pragma unroll
  for (int i = 0; i < kGroups * 8; ++i)
    x[i / 8][i / 2 % 4][i % 2] = pair_of(call.x, call.depth, call.columns, lane % 4 * 2 + i % 2 * 8,
                                         first + i / 8 * kGroupColumns + column_of(i / 2 % 4, lane / 4));
  const std::int64_t column = first + lane % 4 * 8, down = std::int64_t(gridDim.x) * kRows;
  std::uint32_t dy[4], next[4];
  load_dy(call, std::int64_t(blockIdx.x) * kRows + lane / 4, lane, dy);
  for (std::int64_t top = std::int64_t(blockIdx.x) * kRows; top < call.rows; top += down) {
    const std::int64_t row = top + lane / 4;  // and the one 8 further on
    T* to = static_cast<T*>(call.dw) + row * call.columns + column;
    load_dy(call, row + down, lane, next);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float sums[4][4] = {};
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_step(sums[j], dy, x[group][j]);
      const int along = group * kGroupColumns;
      if (row < call.rows && column + along < call.columns) store_eight(to + along, sums, 0);
      if (row + 8 < call.rows && column + along < call.columns)
        store_eight(to + 8 * call.columns + along, sums, 1);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) dy[i] = next[i];
  }
}

}  // namespace

void few_rows_dw(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream) {
  const FewRowsDw call{reinterpret_cast<const std::uint16_t*>(dy.bytes()),
                       reinterpret_cast<const std::uint16_t*>(x.bytes()),
                       dweight.bytes(),
                       dy.rows(),
                       dweight.rows(),
                       dweight.cols()};
  const std::int64_t strips = (call.columns + kWarpColumns - 1) / kWarpColumns;
  const std::int64_t warps = std::min<std::int64_t>(strips, kMostWarps),
                     across = (strips + warps - 1) / warps;
  const std::int64_t down = std::min<std::int64_t>((call.rows + kRows - 1) / kRows, multiprocessors());
  const auto kernel =
      dweight.dtype() == DType::fp32 ? few_rows_dw_kernel<float> : few_rows_dw_kernel<__nv_bfloat16>;
  launch_early("linear_weight_gradient of few rows", kernel, dim3(unsigned(down), unsigned(across)),
               int(warps * 32), 0, stream, call);
}

}  // namespace h3::kernels::cuda
