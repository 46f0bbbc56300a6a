// The chain on vectors, written once over the operations of an instruction set.
//
// A tile is one row of A against `Simd::kVectors` vectors of columns of B. A step takes four instructions per
// vector and k: the exact product p = a * b in FP32 (two 8-bit significands), p * 2^(25 - E), its conversion
// to an integer (which truncates toward zero), and the integer sum. E, the largest exponent of the step,
// comes from 8-bit exponents of the operands, many columns to an instruction, and from the accumulator.
//
// The fast path equals the integers of chain_step.h whenever
//   - no operand exceeds kLargestExponent: products are finite, and the exponent -128 of a zero cannot become
//   a largest one;
//   - every lane's true E is at least kSmallestE, or its non-zero terms are multiples of 2^(kSmallestE - 25),
//   which then
//     survive the wider alignment unchanged: so for operands of at least 2^kSmallestOperand and an
//     accumulator that is zero or at least 2^(kSmallestE - 2);
//   - the 17 integers fit 32 bits. Sixteen products stay below 63.51 * 2^25 and c below 2 * 2^25, so it takes
//   a step
//     whose row of A has significands that sum to more than 62 * 128 / 255 to leave them.
// Packing finds the operands that break a condition. Such a step computes with the conditions checked on its
// own E and sum (`careful`), and in integers where they fail. It may leave a sum that breaks one, so the sums
// are looked at again after it; a fast step leaves none.
//
// Simd provides: types F (floats), I (32-bit integers), E (exponents of all columns of a tile); Exponent,
// kLanes, kVectors; and the operations used below. Conversions of sums to FP32 truncate: where `to_float`
// rounds by the processor's mode, Simd::RoundTowardZero sets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/numerics/chain_kernel.h"
#include "kernels/numerics/chain_step.h"

namespace h3::numerics {
namespace {  // each instruction set compiles its own copy, with its own flags

constexpr std::int32_t kBias = 127;
constexpr std::int32_t kLargestExponent = 28;
constexpr std::int32_t kSmallestOperand = -49;
constexpr std::int32_t kSmallestE = -99;
constexpr std::int32_t kLargestE = 100;
constexpr std::int32_t kZeroExponent = -128;
constexpr std::int32_t kCarefulSignificands = 62 * 128 * 128 / 255;

template <std::size_t... kIndex, class Fn>
inline __attribute__((always_inline)) void unroll(std::index_sequence<kIndex...>, Fn fn) {
  (fn(kIndex), ...);
}

struct OperandRange {
  std::uint32_t smallest = 0xffff, largest = 0, significands = 0;
};

inline std::int32_t exponent_of(std::uint32_t magnitude) {
  const std::int32_t biased = std::int32_t(magnitude >> 7);
  return magnitude == 0 ? kZeroExponent : (biased == 0 ? 1 : biased) - kBias;
}

inline void widen(OperandRange& range, std::uint32_t magnitude) {
  const std::uint32_t smallest = magnitude == 0 ? 0xffff : magnitude;
  range.smallest = smallest < range.smallest ? smallest : range.smallest;
  range.largest = magnitude > range.largest ? magnitude : range.largest;
  range.significands += magnitude == 0 ? 0 : (magnitude & 0x7f) | 0x80;
}

inline bool has_small(const OperandRange& range) {
  return range.smallest < std::uint32_t(kBias + kSmallestOperand) << 7;
}

inline bool has_large(const OperandRange& range) {
  return range.largest >= std::uint32_t(kBias + kLargestExponent + 1) << 7;
}

template <class Simd>
struct Chain {
  using F = typename Simd::F;
  using I = typename Simd::I;
  using E = typename Simd::E;
  using Exponent = typename Simd::Exponent;
  static constexpr std::int64_t kVectors = Simd::kVectors, kLanes = Simd::kLanes;
  static constexpr std::int64_t kColumns = kVectors * kLanes;
  static constexpr std::int64_t kStep = 16;
  static_assert(kColumns <= kMaxTileColumns);

  template <class Fn>
  static inline __attribute__((always_inline)) void each_vector(Fn fn) {
    unroll(std::make_index_sequence<std::size_t(kVectors)>(), fn);
  }

  static void pack_rows(const Bf16* words, std::int64_t rows, const PackedRows& out) {
    for (std::int64_t row = 0; row < rows; ++row) {
      Flags& flags = out.flags[row];
      flags.exact = 0;
      for (std::int64_t step = 0; step < kBlockSteps; ++step) {
        OperandRange range;
        const std::int64_t first = row * kBlockDepth + step * kStep;
        for (std::int64_t k = first; k < first + kStep; ++k) {
          const std::uint32_t word = std::uint16_t(words[k]), magnitude = word & 0x7fff;
          out.values[k] = __builtin_bit_cast(float, word << 16);
          out.exponents[k] = Simd::replicated(exponent_of(magnitude));
          widen(range, magnitude);
        }
        flags.careful[step] = has_small(range) || range.significands >= std::uint32_t(kCarefulSignificands);
        flags.exact |= has_large(range);
      }
    }
  }

  static void pack_panel(const Bf16* words, const PackedPanel& out) {
    Exponent* exponents = static_cast<Exponent*>(out.exponents);
    Flags& flags = *out.flags;
    flags.exact = 0;
    for (std::int64_t step = 0; step < kBlockSteps; ++step) {
      OperandRange range;
      const std::int64_t first = step * kStep * kColumns;
      for (std::int64_t i = first; i < first + kStep * kColumns; ++i) {
        const std::uint32_t word = std::uint16_t(words[i]), magnitude = word & 0x7fff;
        out.values[i] = __builtin_bit_cast(float, word << 16);
        exponents[i] = Exponent(exponent_of(magnitude));
        widen(range, magnitude);
      }
      flags.careful[step] = has_small(range);
      flags.exact |= has_large(range);
    }
  }

  // One step of a tile in integers.
  static __attribute__((noinline)) void exact_step(const float* a, const float* b, float* c) {
    Bf16 x[kStep], y[kStep];
    const auto word = [](float value) { return Bf16(__builtin_bit_cast(std::uint32_t, value) >> 16); };
    for (std::int64_t k = 0; k < kStep; ++k) x[k] = word(a[k]);
    for (std::int64_t column = 0; column < kColumns; ++column) {
      for (std::int64_t k = 0; k < kStep; ++k) y[k] = word(b[k * kColumns + column]);
      c[column] = chain_step(x, y, c[column]);
    }
  }

  // One step of a tile. With kCareful it leaves c alone and returns false where the fast path may not be
  // exact.
  template <bool kCareful>
  static inline __attribute__((always_inline)) bool fast_step(const float* a, const std::int32_t* a_exponents,
                                                              const float* b, const Exponent* b_exponents,
                                                              F (&c)[kVectors]) {
    E largest = Simd::add_exponents(Simd::splat_exponent(a_exponents[0]), Simd::load_exponents(b_exponents));
    unroll(
        std::make_index_sequence<kStep - 1>(), [&](std::size_t i) __attribute__((always_inline)) {
          const std::int64_t k = std::int64_t(i) + 1;
          largest = Simd::max_exponents(
              largest, Simd::add_exponents(Simd::splat_exponent(a_exponents[k]),
                                           Simd::load_exponents(b_exponents + k * kColumns)));
        });
    const I exponent_bits = Simd::splat(0x7f800000);
    if constexpr (kCareful) {
      bool outside = false;
      const E biased = Simd::biased(largest, -kBias);
      each_vector([&](std::size_t v) __attribute__((always_inline)) {
        const I products = Simd::shift_to_exponent(Simd::exponents_of_vector(biased, v));
        const I largest_bits = Simd::max(products, Simd::bit_and(Simd::bits(c[v]), exponent_bits));
        outside |= Simd::any_greater(Simd::splat((kSmallestE + kBias) << 23), largest_bits) ||
                   Simd::any_greater(largest_bits, Simd::splat((kLargestE + kBias) << 23));
      });
      if (outside) return false;
    }

    F scale[kVectors], unscale[kVectors];
    I sum[kVectors];
    const E biased = Simd::biased(largest, kSmallestE);
    each_vector([&](std::size_t v) __attribute__((always_inline)) {
      const I products = Simd::shift_to_exponent(Simd::exponents_of_vector(biased, v));
      const I largest_bits = Simd::max(products, Simd::bit_and(Simd::bits(c[v]), exponent_bits));
      scale[v] = Simd::floats(Simd::sub(Simd::splat((2 * kBias + 25) << 23), largest_bits));  // 2^(25 - E)
      unscale[v] = Simd::floats(Simd::sub(largest_bits, Simd::splat(25 << 23)));              // 2^(E - 25)
      sum[v] = Simd::truncate(Simd::mul(c[v], scale[v]));
    });
    unroll(
        std::make_index_sequence<kStep>(), [&](std::size_t k) __attribute__((always_inline)) {
          const F x = Simd::splat_float(a + k);
          each_vector([&](std::size_t v) __attribute__((always_inline)) {
            const F product =
                Simd::mul(x, Simd::load(b + std::int64_t(k) * kColumns + std::int64_t(v) * kLanes));
            sum[v] = Simd::add(sum[v], Simd::truncate(Simd::mul(product, scale[v])));
          });
        });
    if constexpr (kCareful) {
      constexpr std::int32_t kLimit = 62 << 25;  // a sum that wrapped lands beyond it, too
      bool outside = false;
      each_vector([&](std::size_t v) __attribute__((always_inline)) {
        outside |=
            Simd::any_greater(sum[v], Simd::splat(kLimit)) || Simd::any_greater(Simd::splat(-kLimit), sum[v]);
      });
      if (outside) return false;
    }
    each_vector([&](std::size_t v)
                    __attribute__((always_inline)) { c[v] = Simd::mul(Simd::to_float(sum[v]), unscale[v]); });
    return true;
  }

  static __attribute__((noinline)) void careful_step(const float* a, const std::int32_t* a_exponents,
                                                     const float* b, const Exponent* b_exponents,
                                                     float* memory) {
    F c[kVectors];
    each_vector([&](std::size_t v) { c[v] = Simd::load(memory + std::int64_t(v) * kLanes); });
    if (fast_step<true>(a, a_exponents, b, b_exponents, c))
      each_vector([&](std::size_t v) { Simd::store(memory + std::int64_t(v) * kLanes, c[v]); });
    else
      exact_step(a, b, memory);
  }

  static bool accumulator_fits(const float* c) {
    bool fits = true;
    each_vector([&](std::size_t v) {
      const I magnitude =
          Simd::bit_and(Simd::bits(Simd::load(c + std::int64_t(v) * kLanes)), Simd::splat(0x7fffffff));
      const I small = Simd::bit_and(Simd::greater(Simd::splat((kBias + kSmallestE - 2) << 23), magnitude),
                                    Simd::greater(magnitude, Simd::splat(0)));
      fits = fits && !Simd::any_greater(magnitude, Simd::splat((kBias + kLargestE) << 23)) &&
             !Simd::any_greater(Simd::splat(0), small);
    });
    return fits;
  }

  static __attribute__((noinline)) void run(const PackedRows& rows, std::int64_t count,
                                            const PackedPanel& panel, std::int64_t steps, float* c_rows) {
    [[maybe_unused]] const typename Simd::RoundTowardZero rounding;
    const Exponent* exponents = static_cast<const Exponent*>(panel.exponents);
    for (std::int64_t row = 0; row < count; ++row) {
      const float* a = rows.values + row * kBlockDepth;
      const std::int32_t* a_exponents = rows.exponents + row * kBlockDepth;
      const Flags& flags = rows.flags[row];
      float* memory = c_rows + row * kColumns;
      const bool exact = flags.exact || panel.flags->exact;
      bool careful = !accumulator_fits(memory);
      F c[kVectors];
      each_vector([&](std::size_t v) __attribute__((always_inline)) {
        c[v] = Simd::load(memory + std::int64_t(v) * kLanes);
      });
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t k = step * kStep;
        const float* b = panel.values + k * kColumns;
        if (exact || careful || flags.careful[step] || panel.flags->careful[step]) [[unlikely]] {
          each_vector([&](std::size_t v) { Simd::store(memory + std::int64_t(v) * kLanes, c[v]); });
          if (exact)
            exact_step(a + k, b, memory);
          else
            careful_step(a + k, a_exponents + k, b, exponents + k * kColumns, memory);
          careful = !accumulator_fits(memory);
          each_vector([&](std::size_t v) { c[v] = Simd::load(memory + std::int64_t(v) * kLanes); });
        } else {
          fast_step<false>(a + k, a_exponents + k, b, exponents + k * kColumns, c);
        }
      }
      each_vector([&](std::size_t v) __attribute__((always_inline)) {
        Simd::store(memory + std::int64_t(v) * kLanes, c[v]);
      });
    }
  }

  static constexpr ChainKernel kKernel{kColumns, sizeof(Exponent), &pack_rows, &pack_panel, &run};
};

}  // namespace
}  // namespace h3::numerics
