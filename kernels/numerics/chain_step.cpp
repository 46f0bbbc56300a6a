#include "kernels/numerics/chain_step.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/numerics/chain.h"

namespace h3::numerics {
namespace {

constexpr int kFractionBits = 25;
constexpr int kSmallestAlignment = -133;
constexpr std::uint32_t kInfinity = 0x7f800000u, kNan = 0x7fffffffu;

// value = (-1)^negative * significand * 2^(exponent - fraction), where `fraction` is known from the context:
// 7 bits for a BF16 operand, 14 for a product, 23 for FP32.
struct Term {
  bool negative;
  int exponent;
  std::uint32_t significand;
};

Term term_of(std::uint32_t sign, std::uint32_t biased_exponent, std::uint32_t stored, std::uint32_t hidden) {
  return {sign != 0, int(std::max(biased_exponent, 1u)) - 127,
          biased_exponent == 0 ? stored : stored | hidden};
}

Term term_of(Bf16 word) {
  const std::uint32_t w = std::uint16_t(word);
  return term_of(w >> 15, (w >> 7) & 0xff, w & 0x7f, 0x80);
}

Term term_of(float value) {
  const std::uint32_t w = std::bit_cast<std::uint32_t>(value);
  return term_of(w >> 31, (w >> 23) & 0xff, w & 0x7fffff, 0x800000);
}

std::int64_t aligned(const Term& term, int fraction, int largest_exponent) {
  const int shift = (term.exponent - fraction) - (largest_exponent - kFractionBits);
  const std::int64_t magnitude = shift >= 0    ? std::int64_t(term.significand) << shift
                                 : shift > -32 ? std::int64_t(term.significand >> -shift)
                                               : 0;
  return term.negative ? -magnitude : magnitude;
}

// sum * 2^quantum, truncated toward zero to FP32.
float truncated(std::int64_t sum, int quantum) {
  if (sum == 0) return 0.0f;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0;
  std::uint64_t magnitude = sum < 0 ? std::uint64_t(-sum) : std::uint64_t(sum);
  const int exponent = std::bit_width(magnitude) - 1 + quantum;
  if (exponent > 127) return std::bit_cast<float>(sign | kInfinity);
  const int last_place = std::max(exponent - 23, -149);
  const int drop = last_place - quantum;
  if (drop > 63) return std::bit_cast<float>(sign);
  magnitude = drop >= 0 ? magnitude >> drop : magnitude << -drop;
  // A normal result carries its hidden bit into the exponent field; a subnormal one has neither.
  const std::uint32_t biased = exponent < -126 ? 0 : std::uint32_t(exponent + 126);
  return std::bit_cast<float>(sign | ((biased << 23) + std::uint32_t(magnitude)));
}

// The step when an operand or the accumulator is not finite: the IEEE 754 sum.
float non_finite(const Bf16* a, const Bf16* b, float c) {
  bool positive = false, negative = false;
  const auto add = [&](std::uint32_t bits) {
    if ((bits & kInfinity) == kInfinity) ((bits >> 31) != 0 ? negative : positive) = true;
  };
  const auto is_nan = [](std::uint32_t bits) { return (bits & 0x7fffffffu) > kInfinity; };
  std::uint32_t bits = std::bit_cast<std::uint32_t>(c);
  if (is_nan(bits)) return std::bit_cast<float>(kNan);
  add(bits);
  for (int k = 0; k < kChainStep; ++k) {
    const std::uint32_t x = std::uint32_t(a[k]) << 16, y = std::uint32_t(b[k]) << 16;
    const bool infinite = (x & kInfinity) == kInfinity || (y & kInfinity) == kInfinity;
    const bool zero = (x << 1) == 0 || (y << 1) == 0;
    if (is_nan(x) || is_nan(y) || (infinite && zero)) return std::bit_cast<float>(kNan);
    if (infinite) add(kInfinity | ((x ^ y) & 0x80000000u));
  }
  if (positive && negative) return std::bit_cast<float>(kNan);
  return std::bit_cast<float>(positive ? kInfinity : kInfinity | 0x80000000u);
}

bool is_finite(Bf16 word) { return (std::uint16_t(word) & 0x7f80) != 0x7f80; }
bool is_finite(float value) { return (std::bit_cast<std::uint32_t>(value) & kInfinity) != kInfinity; }

}  // namespace

float chain_step(const Bf16* a, const Bf16* b, float c) {
  bool finite = is_finite(c);
  for (int k = 0; k < kChainStep; ++k) finite = finite && is_finite(a[k]) && is_finite(b[k]);
  if (!finite) return non_finite(a, b, c);

  Term products[kChainStep];
  const Term start = term_of(c);
  int largest = start.significand != 0 ? start.exponent : kSmallestAlignment;
  for (int k = 0; k < kChainStep; ++k) {
    const Term x = term_of(a[k]), y = term_of(b[k]);
    products[k] = {x.negative != y.negative, x.exponent + y.exponent, x.significand * y.significand};
    if (products[k].significand != 0) largest = std::max(largest, products[k].exponent);
  }
  std::int64_t sum = start.significand != 0 ? aligned(start, 23, largest) : 0;
  for (const Term& product : products)
    if (product.significand != 0) sum += aligned(product, 14, largest);
  return truncated(sum, largest - kFractionBits);
}

void chain_reference(const Operand& a, const Operand& b, const float* start, float* c,
                     std::int64_t c_stride) {
  require(a.depth == b.depth, "chain_reference: depths {} and {} differ", a.depth, b.depth);
  const auto load = [](const Operand& operand, std::int64_t row, std::int64_t k, Bf16* words) {
    for (std::int64_t i = 0; i < kChainStep; ++i)
      words[i] = k + i < operand.depth
                     ? operand.data[row * operand.row_stride + (k + i) * operand.depth_stride]
                     : Bf16(0);
  };
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j) {
      float sum = start != nullptr ? start[i * c_stride + j] : 0.0f;
      for (std::int64_t k = 0; k < a.depth; k += kChainStep) {
        Bf16 x[kChainStep], y[kChainStep];
        load(a, i, k, x);
        load(b, j, k, y);
        sum = chain_step(x, y, sum);
      }
      c[i * c_stride + j] = sum;
    }
}

}  // namespace h3::numerics
