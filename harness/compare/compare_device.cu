#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "harness/compare/compare_device.h"
#include "harness/compare/comparison_sums.h"
#include "kernels/cuda/device.h"
#include "model/digest.h"

namespace h3 {
namespace {

constexpr int kThreads = 128, kBlocks = 1056;  // always as many: the order of the sums is fixed
constexpr std::int64_t kNowhere = INT64_MAX;

struct Bf16Format {
  using Word = std::uint16_t;
  static constexpr std::uint32_t kMagnitude = 0x7fff, kInfinity = 0x7f80, kPoison = 0xffff;
  __device__ static float widened(Word word) { return __uint_as_float(std::uint32_t(word) << 16); }
  __device__ static std::uint32_t rounded(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
};
struct Fp32Format {
  using Word = std::uint32_t;
  static constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000, kPoison = 0xffffffff;
  __device__ static float widened(Word word) { return __uint_as_float(word); }
  __device__ static std::uint32_t rounded(float x) { return __float_as_uint(x); }
};

struct Measured {
  std::int64_t differing, differing_values, negative_zero, unwritten;
  std::int64_t expected_nan, expected_inf, actual_nan, actual_inf, non_finite_mismatches;
  std::int64_t first_differing, first_unwritten, first_non_finite_mismatch;  // kNowhere: none
  double expected_absmax, max_abs;
  std::int64_t max_abs_index;
  std::uint64_t max_ulp;
  std::int64_t max_ulp_index;
  double error2, expected2, actual2, product;
};

__host__ __device__ Measured nothing() {
  Measured m = {};
  m.first_differing = m.first_unwritten = m.first_non_finite_mismatch = kNowhere;
  m.max_abs_index = m.max_ulp_index = kNowhere;
  return m;
}

__host__ __device__ std::int64_t earlier(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// The larger value and where it is; of equal ones the first place.
template <class Value>
__host__ __device__ void keep_largest(Value value, std::int64_t at, Value& largest, std::int64_t& place) {
  if (value > largest || (value == largest && at < place)) largest = value, place = at;
}

__host__ __device__ void merge(const Measured& from, Measured& into) {
  into.differing += from.differing;
  into.differing_values += from.differing_values;
  into.negative_zero += from.negative_zero;
  into.unwritten += from.unwritten;
  into.expected_nan += from.expected_nan;
  into.expected_inf += from.expected_inf;
  into.actual_nan += from.actual_nan;
  into.actual_inf += from.actual_inf;
  into.non_finite_mismatches += from.non_finite_mismatches;
  into.first_differing = earlier(into.first_differing, from.first_differing);
  into.first_unwritten = earlier(into.first_unwritten, from.first_unwritten);
  into.first_non_finite_mismatch = earlier(into.first_non_finite_mismatch, from.first_non_finite_mismatch);
  if (from.expected_absmax > into.expected_absmax) into.expected_absmax = from.expected_absmax;
  keep_largest(from.max_abs, from.max_abs_index, into.max_abs, into.max_abs_index);
  keep_largest(from.max_ulp, from.max_ulp_index, into.max_ulp, into.max_ulp_index);
  into.error2 += from.error2;
  into.expected2 += from.expected2;
  into.actual2 += from.actual2;
  into.product += from.product;
}

template <class Format>
__device__ void measure(float expected, typename Format::Word word, std::int64_t i, Measured& m) {
  const std::uint32_t a = word, e = Format::rounded(expected), exact = __float_as_uint(expected) & 0x7fffffff;
  const bool e_nan = exact > 0x7f800000, e_finite = exact < 0x7f800000;
  const bool a_nan = (a & Format::kMagnitude) > Format::kInfinity,
             a_finite = (a & Format::kMagnitude) < Format::kInfinity;
  m.expected_nan += e_nan;
  m.actual_nan += a_nan;
  m.expected_inf += !e_nan && !e_finite;
  m.actual_inf += !a_nan && !a_finite;
  if (a == Format::kPoison) {
    ++m.unwritten;
    m.first_unwritten = earlier(m.first_unwritten, i);
  }
  if (e != a) {
    ++m.differing;
    m.first_differing = earlier(m.first_differing, i);
    const bool zeros = ((e | a) & Format::kMagnitude) == 0;
    m.negative_zero += zeros;
    m.differing_values += !zeros && !(e_nan && a_nan);
  }
  if (!e_finite || !a_finite) {
    if ((e_nan && a_nan) || (!e_nan && !a_nan && !e_finite && e == a)) return;
    ++m.non_finite_mismatches;
    m.first_non_finite_mismatch = earlier(m.first_non_finite_mismatch, i);
    return;
  }
  const double x = double(expected), y = double(Format::widened(word)), error = fabs(y - x);
  m.error2 += error * error;
  m.expected2 += x * x;
  m.actual2 += y * y;
  m.product += x * y;
  m.expected_absmax = fmax(m.expected_absmax, fabs(x));
  if (error > 0) keep_largest(error, i, m.max_abs, m.max_abs_index);
  if ((e & Format::kMagnitude) >= Format::kInfinity) return;  // beyond the range of the output's type
  const std::uint64_t p = e & Format::kMagnitude, q = a & Format::kMagnitude;
  const bool same_sign = ((e ^ a) & ~Format::kMagnitude) == 0;
  const std::uint64_t ulps = same_sign ? (p > q ? p - q : q - p) : p + q;
  if (ulps > 0) keep_largest(ulps, i, m.max_ulp, m.max_ulp_index);
}

template <class Format>
__global__ void __launch_bounds__(kThreads)
    measure_all(const float* expected, const typename Format::Word* actual, std::int64_t elements,
                Measured* of_blocks) {
  __shared__ Measured shared[kThreads];
  Measured mine = nothing();
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += std::int64_t(kBlocks) * kThreads)
    measure<Format>(expected[i], actual[i], i, mine);
  shared[threadIdx.x] = mine;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) merge(shared[threadIdx.x + step], shared[threadIdx.x]);
  }
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = shared[0];
}

std::int64_t index_of(std::int64_t place) { return place == kNowhere ? -1 : place; }

}  // namespace

Comparison compare_on_gpu(const Tensor& expected, const Tensor& actual) {
  Comparison result;
  result.mismatch = mismatch_of(expected, actual);
  if (result.mismatch.empty() &&
      (expected.dtype() != DType::fp32 || (actual.dtype() != DType::bf16 && actual.dtype() != DType::fp32)))
    result.mismatch = fmt::format("types: expected {}, got {}, on a GPU fp32 against bf16 or fp32",
                                  name_of(expected.dtype()), name_of(actual.dtype()));
  if (!result.mismatch.empty()) return result;
  require(expected.device() == Device::cuda && actual.device() == Device::cuda,
          "compare_on_gpu: a tensor lies on the CPU");

  Tensor memory = cuda::allocate(DType::fp64, {kBlocks * std::int64_t(sizeof(Measured) / sizeof(double))});
  auto* of_blocks = reinterpret_cast<Measured*>(memory.bytes());
  if (actual.dtype() == DType::bf16)
    measure_all<Bf16Format><<<kBlocks, kThreads>>>(expected.data<float>(),
                                                   reinterpret_cast<const std::uint16_t*>(actual.bytes()),
                                                   actual.elements(), of_blocks);
  else
    measure_all<Fp32Format><<<kBlocks, kThreads>>>(expected.data<float>(),
                                                   reinterpret_cast<const std::uint32_t*>(actual.bytes()),
                                                   actual.elements(), of_blocks);
  cuda::check_launch("compare_on_gpu");
  const Tensor fetched = cuda::download(memory);
  const auto* blocks = reinterpret_cast<const Measured*>(fetched.bytes());
  Measured all = nothing();
  for (int block = 0; block < kBlocks; ++block) merge(blocks[block], all);

  result.differing = all.differing;
  result.first_differing = index_of(all.first_differing);
  result.differing_values = all.differing_values;
  result.negative_zero = all.negative_zero;
  result.unwritten = all.unwritten;
  result.first_unwritten = index_of(all.first_unwritten);
  result.expected_nan = all.expected_nan;
  result.expected_inf = all.expected_inf;
  result.actual_nan = all.actual_nan;
  result.actual_inf = all.actual_inf;
  result.non_finite_mismatches = all.non_finite_mismatches;
  result.first_non_finite_mismatch = index_of(all.first_non_finite_mismatch);
  result.expected_absmax = all.expected_absmax;
  result.max_abs = all.max_abs;
  result.max_abs_index = index_of(all.max_abs_index);
  result.max_ulp = all.max_ulp;
  result.max_ulp_index = index_of(all.max_ulp_index);
  return finished(result, {all.error2, all.expected2, all.actual2, all.product}, actual);
}

std::string xxh3_128_on_gpu(const Tensor& tensor) {
  constexpr std::size_t kPiece = std::size_t(64) << 20;
  static const std::shared_ptr<std::byte> pinned = [] {
    void* memory = nullptr;
    cuda::check(cudaMallocHost(&memory, 2 * kPiece), "xxh3_128_on_gpu: pinned memory");
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* p) { cudaFreeHost(p); });
  }();
  const std::size_t bytes = tensor.size_bytes();
  const auto fetch = [&](std::size_t first) {
    std::byte* to = pinned.get() + first / kPiece % 2 * kPiece;
    const std::size_t count = std::min(kPiece, bytes - first);
    cuda::check(cudaMemcpyAsync(to, tensor.bytes() + first, count, cudaMemcpyDeviceToHost),
                "xxh3_128_on_gpu: copying");
    return std::span<const std::byte>(to, count);
  };
  Xxh3 digest;
  std::span<const std::byte> piece;
  if (bytes > 0) piece = fetch(0);
  for (std::size_t first = 0; first < bytes; first += kPiece) {
    cuda::synchronize();
    const auto here = piece;
    if (first + kPiece < bytes) piece = fetch(first + kPiece);  // while this one is hashed
    digest.update(here);
  }
  return digest.hex();
}

}  // namespace h3
