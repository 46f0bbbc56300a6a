#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "harness/compare/compare_device.h"
#include "harness/compare/measured.h"
#include "kernels/cuda/device.h"
#include "model/digest.h"

namespace h3 {
namespace {

constexpr int kThreads = 128, kBlocks = 1056;  // always as many: the order of the sums is fixed

struct Bf16Format : WordFormat<std::uint16_t, 0x7f80> {
  __device__ static float widened(Word word) { return __uint_as_float(std::uint32_t(word) << 16); }
  __device__ static Word rounded(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return Word((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};
struct Fp32Format : WordFormat<std::uint32_t, 0x7f800000> {
  __device__ static float widened(Word word) { return __uint_as_float(word); }
  __device__ static Word rounded(float x) { return __float_as_uint(x); }
};

template <class Format>
__global__ void __launch_bounds__(kThreads)
    measure_all(const float* expected, const typename Format::Word* actual, std::int64_t elements,
                Measured* of_blocks) {
  __shared__ alignas(Measured) std::byte memory[kThreads * sizeof(Measured)];
  auto* shared = reinterpret_cast<Measured*>(memory);
  Measured mine;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += std::int64_t(kBlocks) * kThreads)
    measure_element<Format>(expected[i], Format::rounded(expected[i]), actual[i], Format::widened(actual[i]),
                            i, mine);
  shared[threadIdx.x] = mine;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) merge(shared[threadIdx.x + step], shared[threadIdx.x]);
  }
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = shared[0];
}

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
  Measured all;
  for (int block = 0; block < kBlocks; ++block) merge(blocks[block], all);
  return finished(all, actual);
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
