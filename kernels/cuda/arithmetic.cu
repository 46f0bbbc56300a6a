#include "kernels/cuda/arithmetic.h"

#include <cuda_runtime.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/packed.cuh"

namespace h3::cuda {
namespace {

struct Differing {
  unsigned contracted, flushed, divided, rooted;
};

// Plain operators, which follow the compiler's flags, beside intrinsics, which never do (flushing apart: there the bits
// of a subnormal sum are known). `a` runs over [1, 2), where approximations are known to round otherwise at many places.
__global__ void compare_operators(std::uint32_t subnormal, Differing* differing) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const float a = __uint_as_float(0x3f800000u + i * 2039u), b = __uint_as_float(0x3fffffffu - i * 1021u);
  const float product = __fmul_rn(a, b);
  if (a * b - product != 0) atomicAdd(&differing->contracted, 1u);
  if (__float_as_uint(__uint_as_float(subnormal) + __uint_as_float(i)) != subnormal + i) atomicAdd(&differing->flushed, 1u);
  if (a / b != __fdiv_rn(a, b)) atomicAdd(&differing->divided, 1u);
  if (sqrtf(a) != __fsqrt_rn(a)) atomicAdd(&differing->rooted, 1u);
}

// Block a takes word a with every word b, a thread 256 of them.
template <class T>
__global__ void compare_pairs(std::uint32_t* differing) {
  const std::uint32_t a = blockIdx.x;
  std::uint32_t count = 0;
  for (std::uint32_t b = threadIdx.x; b < 0x10000; b += blockDim.x) {
    using Two = Packed<T, 2>;
    const Two x = Two::of(a * 0x10001u), y = Two::of(b * 0x10001u);
    const float fx = x.widened().value[0], fy = y.widened().value[0];
    const auto differs = [](const Two& packed, float fp32) {
      return packed.bits != Two::rounded(Vector<T, 2>{{fp32, fp32}}).bits;
    };
    count += differs(x + y, __fadd_rn(fx, fy)) + differs(x - y, __fsub_rn(fx, fy)) + differs(x * y, __fmul_rn(fx, fy));
  }
  if (count) atomicAdd(differing, count);
}

template <class T>
std::uint64_t count_differing_pairs() {
  Tensor counter = allocate(DType::fp32, {1});
  check(cudaMemset(counter.bytes(), 0, counter.size_bytes()), "clearing the count of pairs");
  compare_pairs<T><<<0x10000, 256>>>(reinterpret_cast<std::uint32_t*>(counter.bytes()));
  check_launch("pairs");
  std::uint32_t count = 0;
  check(cudaMemcpy(&count, counter.bytes(), sizeof count, cudaMemcpyDeviceToHost), "the count of pairs");
  return count;
}

}  // namespace

PackedDifferences packed_differences() {
  return {count_differing_pairs<__nv_bfloat16>(), count_differing_pairs<__half>()};
}

std::string wrong_arithmetic() {
  Tensor memory = allocate(DType::i64, {2});
  auto* differing = reinterpret_cast<Differing*>(memory.bytes());
  check(cudaMemset(differing, 0, sizeof(Differing)), "clearing the arithmetic check");
  compare_operators<<<16, 256>>>(0x00400000u, differing);
  check_launch("arithmetic check");
  Differing found{};
  check(cudaMemcpy(&found, differing, sizeof found, cudaMemcpyDeviceToHost), "the arithmetic check");
  const char* what = found.contracted ? "contracts a*b+c"
                     : found.flushed  ? "flushes subnormal numbers"
                     : found.divided  ? "divides approximately"
                     : found.rooted   ? "takes square roots approximately"
                                      : nullptr;
  return what ? fmt::format("this build's GPU code {} (compiled with --use_fast_math or the like): strict kernels need one "
                            "IEEE rounding per operation",
                            what)
              : "";
}

}  // namespace h3::cuda
