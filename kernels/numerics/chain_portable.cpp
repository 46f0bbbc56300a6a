// Any processor: the compilers' generic vectors of 128 bits.
#include <cstring>

#include "kernels/numerics/chain_kernel.h"
#include "kernels/numerics/chain_simd.h"

namespace h3::numerics {
namespace {

struct Portable {
  using F = float __attribute__((vector_size(16)));
  using I = std::int32_t __attribute__((vector_size(16)));
  using Half = std::int16_t __attribute__((vector_size(16)));
  struct E {
    Half half[2];
  };
  using Exponent = std::int16_t;  // two exponents add up without saturation
  static constexpr std::int64_t kLanes = 4, kVectors = 4;

  template <class To, class From>
  static To cast(const From& from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
  }

  static F load(const float* p) { return *reinterpret_cast<const F*>(p); }
  static void store(float* p, F x) { *reinterpret_cast<F*>(p) = x; }
  static F splat_float(const float* p) { return F{*p, *p, *p, *p}; }
  static F mul(F x, F y) { return x * y; }
  static I truncate(F x) { return __builtin_convertvector(x, I); }
  // Rounds to nearest, then steps back where that went away from zero. |x| < 2^31 - 2^25.
  static F to_float(I x) {
    const I sign = x >> 31, magnitude = (x ^ sign) - sign;
    const F nearest = __builtin_convertvector(magnitude, F);
    const I truncated = cast<I>(nearest) + (truncate(nearest) > magnitude);
    return cast<F>(truncated | (sign & splat(std::int32_t(0x80000000u))));
  }
  static I bits(F x) { return cast<I>(x); }
  static F floats(I x) { return cast<F>(x); }
  static I splat(std::int32_t x) { return I{x, x, x, x}; }
  // Sums wrap: in unsigned arithmetic.
  static I add(I x, I y) {
    using U = std::uint32_t __attribute__((vector_size(16)));
    return cast<I>(cast<U>(x) + cast<U>(y));
  }
  static I sub(I x, I y) {
    using U = std::uint32_t __attribute__((vector_size(16)));
    return cast<I>(cast<U>(x) - cast<U>(y));
  }
  static I max(I x, I y) {
    const I mask = x > y;
    return (x & mask) | (y & ~mask);
  }
  static I bit_and(I x, I y) { return x & y; }
  static I greater(I x, I y) { return x > y; }
  static bool any_greater(I x, I y) {
    const I mask = x > y;
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
  }
  static I shift_to_exponent(I x) { return x << 23; }

  static std::int32_t replicated(std::int32_t exponent) { return exponent; }
  static E splat_exponent(const std::int32_t& x) {
    const Half h = Half{} + std::int16_t(x);
    return {{h, h}};
  }
  static E load_exponents(const Exponent* p) { return *reinterpret_cast<const E*>(p); }
  static E add_exponents(const E& x, const E& y) { return {{x.half[0] + y.half[0], x.half[1] + y.half[1]}}; }
  static Half max_half(Half x, Half y) {
    const Half mask = x > y;
    return (x & mask) | (y & ~mask);
  }
  static E max_exponents(const E& x, const E& y) {
    return {{max_half(x.half[0], y.half[0]), max_half(x.half[1], y.half[1])}};
  }
  static E biased(const E& x, std::int32_t smallest) {
    const E at_least = max_exponents(x, splat_exponent(smallest));
    const std::int16_t bias = kBias;
    return {{at_least.half[0] + bias, at_least.half[1] + bias}};
  }
  static I exponents_of_vector(const E& x, std::size_t v) {
    const Half& half = x.half[v / 2];
    const std::size_t first = 4 * (v % 2);
    return I{half[first], half[first + 1], half[first + 2], half[first + 3]};
  }

  struct RoundTowardZero {
    RoundTowardZero() {}  // nothing here depends on the processor's mode
  };
};

}  // namespace

const ChainKernel* chain_kernel_portable() { return &Chain<Portable>::kKernel; }

}  // namespace h3::numerics
