#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/linear.h"

// A block computes tiles of y, turned over: the weight is operand A of the matrix instruction (64 rows for
// each of two warpgroups) and x is operand B, because B comes in steps of 8 rows and S can be anything. One
// warpgroup copies tiles of both operands into a ring of shared memory, the other two multiply. Blocks stay,
// one on each multiprocessor, and walk the tiles in an order that reads the weights once for kPanelRows rows
// of x.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kMultipliers = 2;              // warpgroups
constexpr int kOutputs = kMultipliers * 64;  // of a tile
constexpr int kThreads = (kMultipliers + 1) * kWarpgroup;
constexpr int kMaxWeights = 3;
constexpr int kSharedBytes = 227 * 1024;
constexpr int kAlignment = 1024;
constexpr int kPanelRows = 2048;

// Products of one x with weights of one shape.
struct Products {
  CUtensorMap x;
  CUtensorMap weight[kMaxWeights];
  const __nv_bfloat16* bias[kMaxWeights];
  void* y[kMaxWeights];
  std::int64_t rows, outputs;
  int steps;         // of kTileColumns along the depth
  int output_tiles;  // of one weight
  int row_tiles;
  int panel;  // row tiles that share a pass over the weights
  int tiles;  // in all
  bool fp32;
};

// kFirst + kSecond rows of x by kOutputs outputs; one or two instructions take the rows.
template <int kFirst_, int kSecond_ = 0>
struct Tile {
  static constexpr int kFirst = kFirst_, kSecond = kSecond_;
  static constexpr int kRows = kFirst + kSecond;
  static constexpr int kBoxes = kRows <= 256 ? 1 : kRows % 16 == 0 ? 2 : 3;  // a copy takes at most 256 rows
  static constexpr int kBoxRows = kRows / kBoxes;
  static constexpr int kWeightBytes = kOutputs * kTileRowBytes;
  static constexpr int kSlotBytes = kWeightBytes + kRows * kTileRowBytes;
  static constexpr int out_bytes(int stage_rows) { return kMultipliers * 2 * stage_rows * kTileRowBytes; }
  static constexpr int slots(int stage_rows) {
    return std::min(12, (kSharedBytes - kAlignment - out_bytes(stage_rows) - 256) / kSlotBytes);
  }
  static constexpr int kStageRows = slots(32) == slots(8) ? 32 : 8;  // rows of y on their way out at once
  static constexpr int kStageBytes = kStageRows * kTileRowBytes;
  static constexpr int kOutBytes = out_bytes(kStageRows);
  static constexpr int kSlots = slots(kStageRows);
  static constexpr int kUsedBytes = kAlignment + kSlots * kSlotBytes + kOutBytes + kSlots * 16;
  static_assert(kBoxRows % 8 == 0 && kBoxRows * kBoxes == kRows && kSlots >= 3);
};

struct Place {
  int weight;
  std::int64_t output, row;
};

template <class T>
__device__ Place place_of(const Products& products, int tile) {
  const int passed = products.tiles / products.row_tiles;  // output tiles of all weights
  const int first = tile / (passed * products.panel) * products.panel;
  const int width = min(products.panel, products.row_tiles - first);
  const int at = tile - first * passed, output = at / width;
  return {output / products.output_tiles, std::int64_t(output % products.output_tiles) * kOutputs,
          std::int64_t(first + at % width) * T::kRows};
}

// Slots of shared memory that go round between the copying warpgroup and the multiplying ones.
template <class T>
struct Ring {
  std::uint32_t slots, full, empty;  // addresses: of the first slot and of its two barriers
  int slot = 0;
  std::uint32_t phase = 0;

  __device__ std::uint32_t memory() const { return slots + slot * T::kSlotBytes; }
  __device__ std::uint32_t is_full() const { return full + slot * 8; }
  __device__ std::uint32_t is_empty() const { return empty + slot * 8; }
  __device__ void next() {
    if (++slot == T::kSlots) slot = 0, phase ^= 1;
  }
};

template <class T>
__device__ void copy_tiles(const Products& products, Ring<T> ring) {
  for (int tile = blockIdx.x; tile < products.tiles; tile += gridDim.x) {
    const Place place = place_of<T>(products, tile);
    for (int step = 0; step < products.steps; ++step, ring.next()) {
      const int column = step * kTileColumns;
      barrier_wait(ring.is_empty(), ring.phase ^ 1);
      barrier_expect(ring.is_full(), T::kSlotBytes);
      copy_box(&products.weight[place.weight], column, int(place.output), ring.memory(), ring.is_full());
      for (int row = 0; row < T::kRows; row += T::kBoxRows)
        copy_box(&products.x, column, int(place.row) + row,
                 ring.memory() + T::kWeightBytes + row * kTileRowBytes, ring.is_full());
    }
  }
}

// The chain of every element of a tile: K ascending, 16 at a time, one accumulator.
template <class T>
__device__ __forceinline__ void multiply_tile(const Products& products, Ring<T>& ring,
                                              float (&sums)[T::kRows / 2], int warpgroup, bool speaks) {
  std::uint32_t done = 0;
  for (int step = 0; step < products.steps; ++step) {
    const std::uint64_t a = tile_descriptor(ring.memory() + warpgroup * 64 * kTileRowBytes);
    const std::uint64_t b = tile_descriptor(ring.memory() + T::kWeightBytes);
    barrier_wait(ring.is_full(), ring.phase);
    multiply_begin();
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
      const std::uint64_t a_k = a + k * kStepBytes / 16, b_k = b + k * kStepBytes / 16;
      multiply_step<T::kFirst>(sums, a_k, b_k, step + k);
      if constexpr (T::kSecond > 0)
        multiply_step<T::kSecond>(sums + T::kFirst / 2, a_k, b_k + T::kFirst * kTileRowBytes / 16, step + k);
    }
    multiply_commit();
    multiply_wait<1>();  // the step before this one
    if (speaks && step > 0) barrier_arrive(done);
    done = ring.is_empty();
    ring.next();
  }
  multiply_wait<0>();
  if (speaks) barrier_arrive(done);
}

// bias is added in FP32; then one rounding, or none.
template <class T>
__device__ __forceinline__ void store_tile(const Products& products, const Place& place,
                                           float (&sums)[T::kRows / 2], std::uint32_t stages, int warpgroup,
                                           int thread) {
  const int warp = thread / 32, lane = thread % 32;
  const std::int64_t output =
      place.output + warpgroup * 64 + warp * 16 + lane / 4;  // and the one 8 further on
  if (const __nv_bfloat16* bias = products.bias[place.weight]) {
    const float terms[2] = {output < products.outputs ? __bfloat162float(bias[output]) : 0.f,
                            output + 8 < products.outputs ? __bfloat162float(bias[output + 8]) : 0.f};
#pragma unroll
    for (int i = 0; i < T::kRows / 2; ++i) sums[i] = __fadd_rn(sums[i], terms[i / 2 % 2]);
  }
  if (products.fp32) {
    float* y = static_cast<float*>(products.y[place.weight]);
#pragma unroll
    for (int i = 0; i < T::kRows / 2; ++i) {
      const std::int64_t row = place.row + i / 4 * 8 + lane % 4 * 2 + i % 2, column = output + i / 2 % 2 * 8;
      if (row < products.rows && column < products.outputs) y[row * products.outputs + column] = sums[i];
    }
    return;
  }

  // Turned over on the way: kStageRows rows of 64 outputs at a time, in two stages taken in turn. 16-byte
  // parts of a row are swizzled by the row, so that neither side meets a bank twice.
  __nv_bfloat16* y = static_cast<__nv_bfloat16*>(products.y[place.weight]);
  const int part = thread % 8;
  const std::int64_t column = place.output + warpgroup * 64 + part * 8;
  warpgroup_sync(1 + warpgroup);
#pragma unroll
  for (int done = 0; done < T::kRows; done += T::kStageRows) {
    const std::uint32_t stage = stages + done / T::kStageRows % 2 * T::kStageBytes;
#pragma unroll
    for (int row = 0; row < T::kStageRows && done + row < T::kRows; row += 8) {
      const float* sum = &sums[(done + row) / 2];
      const int to = (warp * 2 + lane / 8 % 2) ^ (lane % 8);
      store_transposed(stage + (row + lane % 8) * kTileRowBytes + to * 16, to_bf16_pair(sum[0], sum[1]),
                       to_bf16_pair(sum[2], sum[3]));
    }
    warpgroup_sync(1 + warpgroup);
#pragma unroll
    for (int first = 0; first < T::kStageRows; first += kWarpgroup / 8) {
      const int row = first + thread / 8;
      const std::int64_t at = place.row + done + row;
      if (row < T::kStageRows && done + row < T::kRows && at < products.rows && column < products.outputs)
        *reinterpret_cast<uint4*>(y + at * products.outputs + column) =
            load_part(stage + row * kTileRowBytes + (part ^ (row % 8)) * 16);
    }
  }
}

template <class T>
__global__ __launch_bounds__(kThreads, 1) void linear_kernel(const __grid_constant__ Products products) {
  extern __shared__ std::uint8_t memory[];
  const std::uint32_t slots = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint32_t stages = slots + T::kSlots * T::kSlotBytes, full = stages + T::kOutBytes;
  Ring<T> ring{slots, full, full + T::kSlots * 8};
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < T::kSlots; ++slot) {
      barrier_init(ring.full + slot * 8, 1);
      barrier_init(ring.empty + slot * 8, kMultipliers);
    }
    barrier_init_fence();
  }
  __syncthreads();

  const int warpgroup = threadIdx.x / kWarpgroup, thread = threadIdx.x % kWarpgroup;
  if (warpgroup == kMultipliers) {
    give_registers<24>();
    if (thread == 0) {
      wait_for_predecessor();
      let_successor_start();
      copy_tiles<T>(products, ring);
    }
  } else {
    take_registers<240>();
    for (int tile = blockIdx.x; tile < products.tiles; tile += gridDim.x) {
      float sums[T::kRows / 2];
      multiply_tile<T>(products, ring, sums, warpgroup, thread == 0);
      store_tile<T>(products, place_of<T>(products, tile), sums, stages + warpgroup * 2 * T::kStageBytes,
                    warpgroup, thread);
    }
  }
}

// ---- host

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "linear: asking for the device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "linear: counting multiprocessors");
  return count;
}

std::int64_t parts(std::int64_t extent, std::int64_t part) { return (extent + part - 1) / part; }

template <class T>
void launch(Products products, const Tensor& x, std::span<const Tensor> weights, Stream stream) {
  products.x = tensor_map(x.bytes(), products.rows, x.cols(), T::kBoxRows);
  for (std::size_t i = 0; i < weights.size(); ++i)
    products.weight[i] = tensor_map(weights[i].bytes(), products.outputs, x.cols(), kOutputs);
  products.steps = int(parts(x.cols(), kTileColumns));
  products.output_tiles = int(parts(products.outputs, kOutputs));
  products.row_tiles = int(parts(products.rows, T::kRows));
  products.panel = std::max(1, kPanelRows / T::kRows);
  products.tiles = products.output_tiles * products.row_tiles * int(weights.size());

  cudaLaunchAttribute early{};  // start while the launch before this one drains; see wait_for_predecessor
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = std::min(multiprocessors(), products.tiles);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = T::kUsedBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaFuncSetAttribute(linear_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kUsedBytes),
        "linear: asking for shared memory");
  check(cudaLaunchKernelEx(&config, linear_kernel<T>, products), "linear");
}

struct TileEntry {
  int rows;
  int step_ns;  // of kTileColumns along the depth, measured on an H200 at work; only the choice depends on it
  void (*launch)(Products, const Tensor&, std::span<const Tensor>, Stream);
};

template <class T>
constexpr TileEntry entry(int step_ns) {
  return {T::kRows, step_ns, launch<T>};
}

constexpr TileEntry kTiles[] = {
    entry<Tile<8>>(280),        entry<Tile<16>>(285),  entry<Tile<32>>(290),  entry<Tile<64>>(295),
    entry<Tile<88>>(300),       entry<Tile<136>>(410), entry<Tile<160>>(505), entry<Tile<176>>(535),
    entry<Tile<192>>(585),      entry<Tile<232>>(700), entry<Tile<256>>(760), entry<Tile<136, 136>>(805),
    entry<Tile<160, 152>>(950),
};

// The tile that is done first when multiprocessors take tiles in turn, or, where reading the weights takes
// longer than that, the first such tile.
int choose(std::int64_t rows, std::int64_t outputs, std::int64_t depth) {
  constexpr double kBytesPerNs = 4200;
  const double reading = double(outputs) * double(depth) * 2 / kBytesPerNs;
  const std::int64_t places = multiprocessors();
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tile_count(); ++i) {
    const std::int64_t turns = parts(parts(rows, kTiles[i].rows) * parts(outputs, kOutputs), places);
    const double time = std::max(reading, double(turns * parts(depth, kTileColumns)) * kTiles[i].step_ns);
    if (time < least) least = time, best = i;
  }
  return best;
}

void require_operand(const char* what, const Tensor& tensor) {
  require(!tensor.empty() && tensor.shape().size() >= 2 && tensor.elements() > 0,
          "linear: {}: shape {}, expected a non-empty matrix", what, to_string(tensor.shape()));
  require(tensor.device() == Device::cuda, "linear: {} lies on the CPU, expected the GPU", what);
}

void require_bf16(const char* what, const Tensor& tensor) {
  require(tensor.dtype() == DType::bf16, "linear: {}: {}, expected bf16", what, name_of(tensor.dtype()));
}

constexpr int kChoose = -1;

void multiply(int tile, const Tensor& x, std::span<const Tensor> weights, const Tensor* bias,
              std::span<Tensor> ys, Stream stream) {
  require_operand("x", x);
  require_bf16("x", x);
  require(!weights.empty() && weights.size() <= kMaxWeights && weights.size() == ys.size(),
          "linear: {} weights for {} results, expected as many, at most {}", weights.size(), ys.size(),
          kMaxWeights);
  Products products{};
  products.rows = x.rows();
  products.outputs = weights[0].empty() ? 0 : weights[0].rows();
  products.fp32 = ys[0].dtype() == DType::fp32;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_operand("weight", weights[i]);
    require_bf16("weight", weights[i]);
    require(weights[i].cols() == x.cols(), "linear: weight has {} inputs, x has {}", weights[i].cols(),
            x.cols());
    require(weights[i].rows() == products.outputs,
            "linear: weights with {} and {} outputs, expected one shape", products.outputs,
            weights[i].rows());
    require_operand("y", ys[i]);
    require(ys[i].dtype() == DType::bf16 || ys[i].dtype() == DType::fp32,
            "linear: y: {}, expected bf16 or fp32", name_of(ys[i].dtype()));
    require(ys[i].dtype() == ys[0].dtype(), "linear: y: {} and {}, expected one type", name_of(ys[0].dtype()),
            name_of(ys[i].dtype()));
    require(ys[i].rows() == products.rows && ys[i].cols() == products.outputs,
            "linear: y: shape {}, expected {} rows of {}", to_string(ys[i].shape()), products.rows,
            products.outputs);
    products.y[i] = ys[i].bytes();
  }
  if (bias != nullptr) {
    require_bf16("bias", *bias);
    require(!bias->empty() && bias->elements() == products.outputs, "linear: bias: shape {}, expected {}",
            to_string(bias->shape()), products.outputs);
    require(bias->device() == Device::cuda, "linear: bias lies on the CPU, expected the GPU");
    products.bias[0] = reinterpret_cast<const __nv_bfloat16*>(bias->bytes());
  }
  require(products.outputs % 8 == 0 && x.cols() % 8 == 0,
          "linear: {} outputs and {} inputs, expected multiples of 8 on the GPU", products.outputs, x.cols());
  constexpr std::int64_t kLimit = std::int64_t(1) << 31;  // of a coordinate of the copy engine, and of tiles
  require(std::max({products.rows, products.outputs, x.cols()}) < kLimit - 512 &&
              parts(products.rows, 8) * parts(products.outputs, kOutputs) * kMaxWeights < kLimit,
          "linear: {} rows of {} by {} outputs are more than the GPU kernel counts", products.rows, x.cols(),
          products.outputs);
  if (tile == kChoose)
    tile = choose(products.rows, products.outputs * std::int64_t(weights.size()), x.cols());
  kTiles[tile].launch(products, x, weights, stream);
}

}  // namespace

int tile_count() { return int(std::size(kTiles)); }

void linear_with_tile(int tile, const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y,
                      Stream stream) {
  require(tile >= 0 && tile < tile_count(), "linear: tile {}, expected 0 to {}", tile, tile_count() - 1);
  multiply(tile, x, {&weight, 1}, bias, {&y, 1}, stream);
}

void linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y, Stream stream) {
  multiply(kChoose, x, {&weight, 1}, bias, {&y, 1}, stream);
}

void linear(const Tensor& x, std::span<const Tensor> weights, std::span<Tensor> ys, Stream stream) {
  multiply(kChoose, x, weights, nullptr, ys, stream);
}

}  // namespace h3::kernels::cuda
