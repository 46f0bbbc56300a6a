#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/linear.h"

// A block computes tiles of y, turned over: the weight is operand A of the matrix instruction (64 rows for
// each of two warpgroups) and x is operand B, because B comes in steps of 8 rows and S can be anything. One
// warpgroup copies tiles of both operands into a ring of shared memory, the other two multiply. Blocks stay,
// one on each multiprocessor, and walk the tiles in an order that reads the weights once for kPanelRows rows
// of x.
//
// The gradients are the same product of other operands: dX takes dY and the weight, dW takes dY and x, both
// with the depth over their rows in memory, which the copy engine and the matrix instruction read as they
// lie.
//
// Gradients of a few rows of dY are other kernels: few_rows.h.
namespace h3::kernels::cuda {
namespace {

using namespace h3::cuda;
using namespace h3::cuda::hopper;

constexpr int kMaxWeights = 3;
constexpr int kSharedBytes = 227 * 1024;
constexpr int kAlignment = 1024;
constexpr int kPanelRows = 2048;

// Products of one x with weights of one shape. Of dX, x is dY; of dW, x is dY and the weight x.
struct Products {
  CUtensorMap x;
  CUtensorMap weight[kMaxWeights];
  const __nv_bfloat16* bias[kMaxWeights];
  void* y[kMaxWeights];
  std::int64_t rows, outputs, depth;
  int steps;         // slots along the depth
  int output_tiles;  // of one weight
  int row_tiles;
  int panel;  // row tiles that share a pass over the weights
  int tiles;  // in all
  bool fp32;
};

// kFirst + kSecond rows of x by kOutputs outputs, 64 for a warpgroup; one or two instructions take the rows.
// The depth of an operand lies along its rows in memory, or, where it is deep, over them.
template <Product kProduct, int kFirst_, int kSecond_ = 0, int kMultipliers_ = 2>
struct Tile {
  static constexpr int kMultipliers = kMultipliers_;  // warpgroups
  static constexpr int kOutputs = kMultipliers * 64;
  static constexpr int kThreads = (kMultipliers + 1) * kWarpgroup;
  static constexpr int kFirst = kFirst_, kSecond = kSecond_;
  static constexpr int kRows = kFirst + kSecond;
  static constexpr bool kDeepWeight = kProduct != Product::forward;
  static constexpr bool kDeepX = kProduct == Product::weight_gradient;
  static constexpr int kStepDepth = kTileColumns;  // of a slot
  static constexpr int kSums = kRows / 2;          // of a thread
  static constexpr int kWeightBoxRows = kDeepWeight ? kStepDepth : kOutputs;
  static constexpr int kBoxes = kDeepX            ? kRows / kTileColumns
                                : kRows <= 256    ? 1
                                : kRows % 16 == 0 ? 2
                                                  : 3;  // a copy takes 256 rows
  static constexpr int kBoxRows = kRows / kBoxes;
  static constexpr int kXBoxRows = kDeepX ? kStepDepth : kBoxRows;
  static constexpr int kRowBytes = kStepDepth * 2;
  static constexpr int kWeightBytes = kOutputs * kRowBytes;
  static constexpr int kSlotBytes = kWeightBytes + kRows * kRowBytes;
  static constexpr int out_bytes(int stage_rows) { return kMultipliers * 2 * stage_rows * kTileRowBytes; }
  static constexpr int slots(int stage_rows) {
    return std::min(24 / kMultipliers,
                    (kSharedBytes - kAlignment - out_bytes(stage_rows) - 256) / kSlotBytes);
  }
  static constexpr int kStageRows = slots(32) == slots(8) ? 32 : 8;  // rows of y on their way out at once
  static constexpr int kStageBytes = kStageRows * kTileRowBytes;
  static constexpr int kOutBytes = out_bytes(kStageRows);
  static constexpr int kSlots = slots(kStageRows);
  static constexpr int kUsedBytes =
      kAlignment + kSlots * kSlotBytes + kOutBytes + Ring<kSlots, kSlotBytes>::kBarrierBytes;
  static_assert(kBoxRows % 8 == 0 && kBoxRows * kBoxes == kRows && kSlots >= 3);
  static_assert(!kDeepX || kBoxRows == kTileColumns);
  // Slots that may be multiplied while the next one is waited for: a few rows take less time than asking.
  static constexpr int kInFlight = kRows <= 32 ? 3 : 1;
  static_assert(kInFlight < kSlots);
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
  return {output / products.output_tiles, std::int64_t(output % products.output_tiles) * T::kOutputs,
          std::int64_t(first + at % width) * T::kRows};
}

template <class T>
using RingOf = Ring<T::kSlots, T::kSlotBytes>;

template <class T>
__device__ void copy_tiles(const Products& products, RingOf<T> ring) {
  for (int tile = blockIdx.x; tile < products.tiles; tile += gridDim.x) {
    const Place place = place_of<T>(products, tile);
    for (int step = 0; step < products.steps; ++step, ring.next()) {
      const int depth = step * T::kStepDepth;
      const auto copy = [&](const CUtensorMap& map, bool deep, std::int64_t row, std::uint32_t to) {
        copy_box(&map, deep ? int(row) : depth, deep ? depth : int(row), to, ring.is_full());
      };
      barrier_wait(ring.is_empty(), ring.phase ^ 1);
      barrier_expect(ring.is_full(), T::kSlotBytes);
      for (int output = 0; output < T::kOutputs; output += T::kDeepWeight ? kTileColumns : T::kOutputs)
        copy(products.weight[place.weight], T::kDeepWeight, place.output + output,
             ring.memory() + output * T::kRowBytes);
      for (int row = 0; row < T::kRows; row += T::kBoxRows)
        copy(products.x, T::kDeepX, place.row + row, ring.memory() + T::kWeightBytes + row * T::kRowBytes);
    }
  }
}

template <class T, bool kDeep>
__device__ std::uint64_t operand_descriptor(std::uint32_t address) {
  return kDeep ? deep_descriptor(address, T::kStepDepth * kTileRowBytes) : tile_descriptor(address);
}

// The chain of every element of a tile: depth ascending, 16 at a time, one accumulator.
template <class T>
__device__ __forceinline__ void multiply_slot(float (&sums)[T::kSums], std::uint32_t slot, int warpgroup,
                                              bool first) {
  const std::uint64_t a = operand_descriptor<T, T::kDeepWeight>(slot + warpgroup * 64 * T::kRowBytes);
  const std::uint64_t b = operand_descriptor<T, T::kDeepX>(slot + T::kWeightBytes);
#pragma unroll
  for (int k = 0; k < T::kStepDepth / 16; ++k) {
    const std::uint64_t a_k = a + k * (T::kDeepWeight ? kDeepStepBytes : kStepBytes) / 16;
    const std::uint64_t b_k = b + k * (T::kDeepX ? kDeepStepBytes : kStepBytes) / 16;
    multiply_step<T::kFirst, T::kDeepWeight, T::kDeepX>(sums, a_k, b_k, !first + k);
    if constexpr (T::kSecond > 0)
      multiply_step<T::kSecond, T::kDeepWeight, T::kDeepX>(sums + T::kFirst / 2, a_k,
                                                           b_k + T::kFirst * kTileRowBytes / 16, !first + k);
  }
}

template <class T>
__device__ __forceinline__ void multiply_tile(const Products& products, RingOf<T>& ring,
                                              float (&sums)[T::kSums], int warpgroup, bool speaks) {
  for (int step = 0; step < products.steps; ++step) {
    barrier_wait(ring.is_full(), ring.phase);
    multiply_begin();
    multiply_slot<T>(sums, ring.memory(), warpgroup, step == 0);
    multiply_commit();
    multiply_wait<T::kInFlight>();
    if (speaks && step >= T::kInFlight) barrier_arrive(ring.was_empty(T::kInFlight));
    ring.next();
  }
  multiply_wait<0>();
  if (speaks)
    for (int before = min(T::kInFlight, products.steps); before > 0; --before)
      barrier_arrive(ring.was_empty(before));
}

// bias is added in FP32; then one rounding, or none.
template <class T>
__device__ __forceinline__ void store_tile(const Products& products, const Place& place,
                                           float (&sums)[T::kSums], std::uint32_t stages, int warpgroup,
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
__global__ __launch_bounds__(T::kThreads, 1) void linear_kernel(const __grid_constant__ Products products) {
  extern __shared__ std::uint8_t memory[];
  const std::uint32_t slots = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint32_t stages = slots + T::kSlots * T::kSlotBytes;
  RingOf<T> ring{slots, stages + T::kOutBytes};
  if (threadIdx.x == 0) ring.init(T::kMultipliers);
  __syncthreads();

  const int warpgroup = threadIdx.x / kWarpgroup, thread = threadIdx.x % kWarpgroup;
  if (warpgroup == T::kMultipliers) {
    give_registers<24>();
    if (thread == 0) {
      wait_for_predecessor();
      let_successor_start();
      copy_tiles<T>(products, ring);
    }
  } else {
    take_registers<240>();
    for (int tile = blockIdx.x; tile < products.tiles; tile += gridDim.x) {
      float sums[T::kSums];
      multiply_tile<T>(products, ring, sums, warpgroup, thread == 0);
      store_tile<T>(products, place_of<T>(products, tile), sums, stages + warpgroup * 2 * T::kStageBytes,
                    warpgroup, thread);
    }
  }
}

// ---- host

std::int64_t parts(std::int64_t extent, std::int64_t part) { return (extent + part - 1) / part; }

template <class T>
void launch(Products products, const Tensor& x, std::span<const Tensor> weights, Stream stream) {
  const auto map = [&](const Tensor& tensor, bool deep, std::int64_t rows, int box_rows) {
    return deep ? tensor_map(tensor.bytes(), products.depth, rows, box_rows)
                : tensor_map(tensor.bytes(), rows, products.depth, box_rows);
  };
  products.x = map(x, T::kDeepX, products.rows, T::kXBoxRows);
  for (std::size_t i = 0; i < weights.size(); ++i)
    products.weight[i] = map(weights[i], T::kDeepWeight, products.outputs, T::kWeightBoxRows);
  products.steps = int(parts(products.depth, T::kStepDepth));
  products.output_tiles = int(parts(products.outputs, T::kOutputs));
  products.row_tiles = int(parts(products.rows, T::kRows));
  products.panel = std::max(1, kPanelRows / T::kRows);
  products.tiles = products.output_tiles * products.row_tiles * int(weights.size());

  launch_early("linear", linear_kernel<T>, std::min(multiprocessors(), products.tiles), T::kThreads,
               T::kUsedBytes, stream, products);
}

struct TileEntry {
  int rows, outputs;
  int depth, step_ns;  // of a slot, and its time measured on an H200 at work; only the choice depends on it
  void (*launch)(Products, const Tensor&, std::span<const Tensor>, Stream);
};

template <class T>
constexpr TileEntry entry(int step_ns) {
  return {T::kRows, T::kOutputs, T::kStepDepth, step_ns, launch<T>};
}

// Any number of rows of x.
template <Product P>
constexpr TileEntry kRowTiles[] = {
    entry<Tile<P, 8>>(280),        entry<Tile<P, 16>>(285),      entry<Tile<P, 32>>(290),
    entry<Tile<P, 64>>(295),       entry<Tile<P, 88>>(300),      entry<Tile<P, 136>>(410),
    entry<Tile<P, 160>>(505),      entry<Tile<P, 176>>(535),     entry<Tile<P, 192>>(585),
    entry<Tile<P, 232>>(700),      entry<Tile<P, 256>>(760),     entry<Tile<P, 136, 136>>(805),
    entry<Tile<P, 160, 152>>(950), entry<Tile<P, 8, 0, 1>>(150),
};

// Rows of dW are columns of dY, read 64 at a time.
constexpr Product kDw = Product::weight_gradient;
constexpr TileEntry kColumnTiles[] = {entry<Tile<kDw, 64>>(295), entry<Tile<kDw, 128>>(395),
                                      entry<Tile<kDw, 192>>(585), entry<Tile<kDw, 256>>(760)};

std::span<const TileEntry> tiles_of(Product product) {
  switch (product) {
    case Product::forward:
      return kRowTiles<Product::forward>;
    case Product::input_gradient:
      return kRowTiles<Product::input_gradient>;
    case Product::weight_gradient:
      return kColumnTiles;
  }
  return {};
}

// The tile that is done first when multiprocessors take tiles in turn, or, where reading the weights takes
// longer than that, the first such tile.
int choose(std::span<const TileEntry> tiles, std::int64_t rows, std::int64_t outputs, std::int64_t depth) {
  constexpr double kBytesPerNs = 4200;
  const double reading = double(outputs) * double(depth) * 2 / kBytesPerNs;
  const std::int64_t places = multiprocessors();
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < int(tiles.size()); ++i) {
    const std::int64_t turns = parts(parts(rows, tiles[i].rows) * parts(outputs, tiles[i].outputs), places);
    const double time = std::max(reading, double(turns * parts(depth, tiles[i].depth)) * tiles[i].step_ns);
    if (time < least) least = time, best = i;
  }
  return best;
}

// What a product is called in messages, and its operands: the one that gives the rows, the other, the result.
struct Names {
  const char *product, *x, *weight, *y;
};

Names names_of(Product product) {
  switch (product) {
    case Product::forward:
      return {"linear", "x", "weight", "y"};
    case Product::input_gradient:
      return {"linear_input_gradient", "dy", "weight", "dx"};
    case Product::weight_gradient:
      return {"linear_weight_gradient", "dy", "x", "dweight"};
  }
  return {};
}

void require_matrix(const Names& names, const char* what, const Tensor& tensor) {
  require(!tensor.empty() && tensor.shape().size() >= 2 && tensor.elements() > 0,
          "{}: {}: shape {}, expected a non-empty matrix", names.product, what, to_string(tensor.shape()));
  require(tensor.device() == Device::cuda, "{}: {} lies on the CPU, expected the GPU", names.product, what);
}

void require_operand(const Names& names, const char* what, const Tensor& tensor) {
  require_matrix(names, what, tensor);
  require(tensor.dtype() == DType::bf16, "{}: {}: {}, expected bf16", names.product, what,
          name_of(tensor.dtype()));
}

// Rows that become rows or columns of the result, and the extent that is summed over.
struct Extents {
  std::int64_t rows, depth;
};

Extents extents_of(const Tensor& operand, bool deep) {
  return deep ? Extents{operand.cols(), operand.rows()} : Extents{operand.rows(), operand.cols()};
}

constexpr int kChoose = -1;

void multiply(Product product, int tile, const Tensor& x, std::span<const Tensor> weights, const Tensor* bias,
              std::span<Tensor> ys, Stream stream) {
  const Names names = names_of(product);
  require_operand(names, names.x, x);
  require(!weights.empty() && weights.size() <= kMaxWeights && weights.size() == ys.size(),
          "{}: {} weights for {} results, expected as many, at most {}", names.product, weights.size(),
          ys.size(), kMaxWeights);
  for (const Tensor& weight : weights) require_operand(names, names.weight, weight);
  const auto [rows, depth] = extents_of(x, product == Product::weight_gradient);
  const std::int64_t outputs = extents_of(weights[0], product != Product::forward).rows;
  Products products{};
  products.rows = rows;
  products.outputs = outputs;
  products.depth = depth;
  products.fp32 = ys[0].dtype() == DType::fp32;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Extents weight = extents_of(weights[i], product != Product::forward);
    require(weight.depth == depth, "{}: {} of {} and {} of {} have no common extent", names.product, names.x,
            to_string(x.shape()), names.weight, to_string(weights[i].shape()));
    require(weight.rows == outputs, "{}: weights with {} and {} outputs, expected one shape", names.product,
            outputs, weight.rows);
    require_matrix(names, names.y, ys[i]);
    require(ys[i].dtype() == DType::bf16 || ys[i].dtype() == DType::fp32, "{}: {}: {}, expected bf16 or fp32",
            names.product, names.y, name_of(ys[i].dtype()));
    require(ys[i].dtype() == ys[0].dtype(), "{}: {}: {} and {}, expected one type", names.product, names.y,
            name_of(ys[0].dtype()), name_of(ys[i].dtype()));
    require(ys[i].rows() == rows && ys[i].cols() == outputs, "{}: {}: shape {}, expected {} rows of {}",
            names.product, names.y, to_string(ys[i].shape()), rows, outputs);
    products.y[i] = ys[i].bytes();
  }
  if (bias != nullptr) {
    require(bias->dtype() == DType::bf16, "{}: bias: {}, expected bf16", names.product,
            name_of(bias->dtype()));
    require(!bias->empty() && bias->elements() == outputs, "{}: bias: shape {}, expected {}", names.product,
            to_string(bias->shape()), outputs);
    require(bias->device() == Device::cuda, "{}: bias lies on the CPU, expected the GPU", names.product);
    products.bias[0] = reinterpret_cast<const __nv_bfloat16*>(bias->bytes());
  }
  require(outputs % 8 == 0 && x.cols() % 8 == 0,
          "{}: {} outputs and {} columns of {}, expected multiples of 8", names.product, outputs, x.cols(),
          names.x);
  constexpr std::int64_t kLimit = std::int64_t(1) << 31;  // of a coordinate of the copy engine, and of tiles
  require(std::max({rows, outputs, depth}) < kLimit - 512 &&
              parts(rows, 8) * parts(outputs, 64) * kMaxWeights < kLimit,
          "{}: {} rows of {} by {} outputs are more than the GPU kernel counts", names.product, rows, depth,
          outputs);
  const std::span<const TileEntry> tiles = tiles_of(product);
  require(tile < int(tiles.size()), "{}: tile {}, expected 0 to {}", names.product, tile, tiles.size() - 1);
  if (tile == kChoose && product == Product::input_gradient && rows <= kFewRowsOfDx)
    return few_rows_dx(x, weights[0], ys[0], stream);
  if (tile == kChoose && product == Product::weight_gradient && depth <= kFewRowsOfDw)
    return few_rows_dw(x, weights[0], ys[0], stream);
  if (tile == kChoose) tile = choose(tiles, rows, outputs * std::int64_t(weights.size()), depth);
  tiles[tile].launch(products, x, weights, stream);
}

}  // namespace

int tile_count(Product product) { return int(tiles_of(product).size()); }

void product_with_tile(Product product, int tile, const Tensor& x, const Tensor& weight, const Tensor* bias,
                       Tensor& y, Stream stream) {
  require(tile >= 0, "{}: tile {}, expected 0 to {}", names_of(product).product, tile,
          tile_count(product) - 1);
  multiply(product, tile, x, {&weight, 1}, bias, {&y, 1}, stream);
}

void linear(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y, Stream stream) {
  multiply(Product::forward, kChoose, x, {&weight, 1}, bias, {&y, 1}, stream);
}

void linear(const Tensor& x, std::span<const Tensor> weights, std::span<Tensor> ys, Stream stream) {
  multiply(Product::forward, kChoose, x, weights, nullptr, ys, stream);
}

void linear_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream) {
  multiply(Product::input_gradient, kChoose, dy, {&weight, 1}, nullptr, {&dx, 1}, stream);
}

void linear_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream) {
  multiply(Product::weight_gradient, kChoose, dy, {&x, 1}, nullptr, {&dweight, 1}, stream);
}

}  // namespace h3::kernels::cuda
