#include "kernels/numerics/chain_kernel.h"

#if defined(__x86_64__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

// GCC 12 takes the "undefined" operands inside its own AVX-512 intrinsics for a mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include "kernels/numerics/chain_simd.h"
#include "kernels/numerics/chain_x86.h"

namespace h3::numerics {
namespace {

struct Avx512 {
  using F = __m512;
  using I = __m512i;
  using E = __m512i;
  using Exponent = std::int8_t;
  static constexpr std::int64_t kLanes = 16, kVectors = 4;

  static F load(const float* p) { return _mm512_load_ps(p); }
  static void store(float* p, F x) { _mm512_store_ps(p, x); }
  static F splat_float(const float* p) { return _mm512_set1_ps(*p); }
  static F mul(F x, F y) { return _mm512_mul_ps(x, y); }
  static I truncate(F x) { return _mm512_cvttps_epi32(x); }
  static F to_float(I x) { return _mm512_cvtepi32_ps(x); }
  static I bits(F x) { return _mm512_castps_si512(x); }
  static F floats(I x) { return _mm512_castsi512_ps(x); }
  static I splat(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I add(I x, I y) { return _mm512_add_epi32(x, y); }
  static I sub(I x, I y) { return _mm512_sub_epi32(x, y); }
  static I max(I x, I y) { return _mm512_max_epi32(x, y); }
  static I bit_and(I x, I y) { return _mm512_and_si512(x, y); }
  static I greater(I x, I y) { return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(x, y)); }
  static bool any_greater(I x, I y) { return _mm512_cmpgt_epi32_mask(x, y) != 0; }
  static I shift_to_exponent(I x) { return _mm512_slli_epi32(x, 23); }

  static std::int32_t replicated(std::int32_t exponent) {
    return std::int32_t(std::uint32_t(exponent & 0xff) *
                        0x01010101u);  // in signed arithmetic the top byte is undefined
  }
  static E splat_exponent(const std::int32_t& x) { return _mm512_set1_epi32(x); }
  static E load_exponents(const Exponent* p) { return _mm512_load_si512(p); }
  static E add_exponents(E x, E y) { return _mm512_adds_epi8(x, y); }
  static E max_exponents(E x, E y) { return _mm512_max_epi8(x, y); }
  // At least `smallest`, then biased by 127 into unsigned bytes.
  static E biased(E x, std::int32_t smallest) {
    return _mm512_add_epi8(_mm512_max_epi8(x, _mm512_set1_epi8(char(smallest))), _mm512_set1_epi8(127));
  }
  static I exponents_of_vector(E x, std::size_t v) {
    switch (v) {
      case 0:
        return _mm512_cvtepu8_epi32(_mm512_castsi512_si128(x));
      case 1:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(x, 1));
      case 2:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(x, 2));
      default:
        return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(x, 3));
    }
  }

  using RoundTowardZero = X86RoundTowardZero;
};

}  // namespace

const ChainKernel* chain_kernel_avx512() {
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return supported ? &Chain<Avx512>::kKernel : nullptr;
}

}  // namespace h3::numerics

#else

namespace h3::numerics {
const ChainKernel* chain_kernel_avx512() { return nullptr; }
}  // namespace h3::numerics

#endif
