#include "model/provider_normal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace h3 {
namespace {

float fma(float a, float b, float c) { return std::fma(a, b, c); }

// ln of a normal number above 0: mantissa m in [sqrt(1/2), sqrt(2)), ln m from a polynomial in m - 1, and the
// exponent's share added in two parts.
float cephes_log(float x) {
  constexpr float kTerms[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                              -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                              2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  constexpr float kLn2Low = -2.12194440e-4f, kLn2High = 0.693359375f;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  float exponent = float(std::int32_t(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // [1/2, 1)
  float m = mantissa - 1;
  if (mantissa < 0.707106781186547524f) {
    exponent -= 1;
    m += mantissa;
  }
  const float square = m * m;
  float sum = kTerms[0];
  for (std::size_t i = 1; i < std::size(kTerms); ++i) sum = fma(sum, m, kTerms[i]);
  sum *= m;
  const float low = exponent * kLn2Low;
  sum = fma(sum, square, low);
  sum = fma(-0.5f, square, sum);
  return fma(exponent, kLn2High, m + sum);
}

struct SinCos {
  float sin, cos;
};

// Of an angle in [0, 2 pi]: reduced by multiples of pi / 2 that are subtracted in three parts.
SinCos cephes_sincos(float x) {
  constexpr float kFourOverPi = 1.27323954473516f;
  constexpr float kParts[] = {-0.78515625f, -2.4187564849853515625e-4f, -3.77489497744594108e-8f};
  const std::uint32_t octant = (std::uint32_t(x * kFourOverPi) + 1) & ~1u;  // 0, 2, 4, 6, 8
  for (const float part : kParts) x = fma(float(octant), part, x);
  const float z = x * x;

  float cos = 2.443315711809948e-5f;
  cos = fma(cos, z, -1.388731625493765e-3f);
  cos = fma(cos, z, 4.166664568298827e-2f);
  cos *= z;
  cos = fma(cos, z, -(z * 0.5f));
  cos += 1;

  float sin = -1.9515295891e-4f;
  sin = fma(sin, z, 8.3321608736e-3f);
  sin = fma(sin, z, -1.6666654611e-1f);
  sin *= z;
  sin = fma(sin, x, x);

  if (octant & 2) std::swap(sin, cos);
  return {octant & 4 ? -sin : sin, (octant - 2) & 4 ? cos : -cos};
}

}  // namespace

ProviderGenerator::ProviderGenerator(std::uint64_t seed) {
  state_[0] = std::uint32_t(seed);
  for (std::size_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + std::uint32_t(i);
}

std::uint32_t ProviderGenerator::word() {
  if (next_ == kWords) {
    constexpr std::size_t kShift = 397;
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint32_t mixed = (state_[i] & 0x80000000u) | (state_[(i + 1) % kWords] & 0x7fffffffu);
      state_[i] = state_[(i + kShift) % kWords] ^ (mixed >> 1) ^ (mixed & 1 ? 0x9908b0dfu : 0);
    }
    next_ = 0;
  }
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

float ProviderGenerator::uniform() { return float(word() & 0xffffffu) * 0x1p-24f; }

double ProviderGenerator::uniform_double() {
  const std::uint64_t high = word(), low = word();
  return double((high << 32 | low) & ((std::uint64_t(1) << 53) - 1)) * 0x1p-53;
}

double ProviderGenerator::pair_member() {
  if (kept_) {
    const double second = *kept_;
    kept_.reset();
    return second;
  }
  const double u1 = uniform_double(), u2 = uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2)), angle = 2.0 * std::numbers::pi * u1;
  kept_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void ProviderGenerator::fill_16(std::span<float, 16> numbers) {
  for (std::size_t j = 0; j < 8; ++j) {
    const float radius = std::sqrt(-2 * cephes_log(1 - numbers[j]));
    const SinCos of = cephes_sincos(float(2 * std::numbers::pi) * numbers[j + 8]);
    numbers[j] = radius * of.cos + 0.0f;  // the mean; of a negative zero it makes a positive one
    numbers[j + 8] = radius * of.sin + 0.0f;
  }
}

Tensor ProviderGenerator::normal(const Shape& shape) {
  Tensor tensor(DType::fp32, shape);
  const auto numbers = tensor.values<float>();
  const std::size_t count = numbers.size();
  if (count < 16) {
    for (float& number : numbers) number = float(pair_member());
    return tensor;
  }
  std::ranges::generate(numbers, [&] { return uniform(); });
  for (std::size_t i = 0; i + 16 <= count; i += 16) fill_16(numbers.subspan(i).first<16>());
  if (count % 16 != 0) {
    const auto last = numbers.last<16>();
    std::ranges::generate(last, [&] { return uniform(); });
    fill_16(last);
  }
  return tensor;
}

}  // namespace h3
