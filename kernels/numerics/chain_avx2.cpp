#include "kernels/numerics/chain_kernel.h"

#if defined(__x86_64__) && defined(__AVX2__)

#include <immintrin.h>

#include "kernels/numerics/chain_simd.h"
#include "kernels/numerics/chain_x86.h"

namespace h3::numerics {
namespace {

struct Avx2 {
  using F = __m256;
  using I = __m256i;
  using E = __m256i;
  using Exponent = std::int8_t;
  static constexpr std::int64_t kLanes = 8, kVectors = 4;

  static F load(const float* p) { return _mm256_load_ps(p); }
  static void store(float* p, F x) { _mm256_store_ps(p, x); }
  static F splat_float(const float* p) { return _mm256_broadcast_ss(p); }
  static F mul(F x, F y) { return _mm256_mul_ps(x, y); }
  static I truncate(F x) { return _mm256_cvttps_epi32(x); }
  static F to_float(I x) { return _mm256_cvtepi32_ps(x); }
  static I bits(F x) { return _mm256_castps_si256(x); }
  static F floats(I x) { return _mm256_castsi256_ps(x); }
  static I splat(std::int32_t x) { return _mm256_set1_epi32(x); }
  static I add(I x, I y) { return _mm256_add_epi32(x, y); }
  static I sub(I x, I y) { return _mm256_sub_epi32(x, y); }
  static I max(I x, I y) { return _mm256_max_epi32(x, y); }
  static I bit_and(I x, I y) { return _mm256_and_si256(x, y); }
  static I greater(I x, I y) { return _mm256_cmpgt_epi32(x, y); }
  static bool any_greater(I x, I y) { return _mm256_movemask_epi8(greater(x, y)) != 0; }
  static I shift_to_exponent(I x) { return _mm256_slli_epi32(x, 23); }

  static std::int32_t replicated(std::int32_t exponent) {
    return std::int32_t(std::uint32_t(exponent & 0xff) *
                        0x01010101u);  // in signed arithmetic the top byte is undefined
  }
  static E splat_exponent(const std::int32_t& x) { return _mm256_set1_epi32(x); }
  static E load_exponents(const Exponent* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  static E add_exponents(E x, E y) { return _mm256_adds_epi8(x, y); }
  static E max_exponents(E x, E y) { return _mm256_max_epi8(x, y); }
  // At least `smallest`, then biased by 127 into unsigned bytes.
  static E biased(E x, std::int32_t smallest) {
    return _mm256_add_epi8(_mm256_max_epi8(x, _mm256_set1_epi8(char(smallest))), _mm256_set1_epi8(127));
  }
  static I exponents_of_vector(E x, std::size_t v) {
    const __m128i half = v < 2 ? _mm256_castsi256_si128(x) : _mm256_extracti128_si256(x, 1);
    return _mm256_cvtepu8_epi32(v % 2 == 0 ? half : _mm_srli_si128(half, 8));
  }

  using RoundTowardZero = X86RoundTowardZero;
};

}  // namespace

const ChainKernel* chain_kernel_avx2() {
  return __builtin_cpu_supports("avx2") ? &Chain<Avx2>::kKernel : nullptr;
}

}  // namespace h3::numerics

#else

namespace h3::numerics {
const ChainKernel* chain_kernel_avx2() { return nullptr; }
}  // namespace h3::numerics

#endif
