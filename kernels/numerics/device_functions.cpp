#include "kernels/numerics/device_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/numerics/device_tables.h"
#include "kernels/numerics/vector_clones.h"

namespace h3::numerics {
namespace {

constexpr std::uint32_t kMantissa = 0x007fffff;
constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::uint32_t kNaN = 0x7fffffff;

constexpr std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
constexpr float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

constexpr std::size_t kChunk = 256;  // what the bulk functions keep on the stack

// |x| as whole and 23 fraction bits, signed as the instruction does it. Written without branches, for the
// vectoriser.
inline std::int32_t ex2_fixed_point(float x) {
  constexpr std::uint32_t kBeyond =
      bits_of(160.0f);  // outside of the range on both sides; NaN ends here, too
  const std::uint32_t bits = bits_of(x), unsigned_bits = bits & ~kSign;
  const float magnitude = float_of(unsigned_bits < kBeyond ? unsigned_bits : kBeyond);
  const std::int32_t whole = std::int32_t(magnitude);
  const std::int32_t fraction = std::int32_t((magnitude - float(whole)) * 8388608.0f);
  const std::int32_t fixed = whole * 8388608 + fraction;
  const std::int32_t negative = std::int32_t(bits) >> 31;  // 0 or -1
  // ~fixed, or -fixed without a fraction.
  return (fixed ^ negative) - (negative & -std::int32_t(fraction == 0));
}

inline float ex2_assemble(float x, std::int32_t whole, std::uint32_t significand) {
  std::uint32_t bits = significand + (std::uint32_t(whole) << 23);
  bits = whole < -126 ? 0 : bits;
  bits = whole > 127 ? kInfinity : bits;
  return float_of(x != x ? kNaN : bits);
}

H3_VECTOR_CLONES void ex2_chunk(const float* x, float* y, std::size_t count, const std::int8_t* residual) {
  std::int32_t fixed[kChunk];
  std::int32_t significand[kChunk];
  for (std::size_t i = 0; i < count; ++i) {
    fixed[i] = ex2_fixed_point(x[i]);
    significand[i] = std::int32_t(ex2_base(std::uint32_t(fixed[i]) & kMantissa));
  }
  for (std::size_t i = 0; i < count; ++i) significand[i] += residual[std::uint32_t(fixed[i]) & kMantissa];
  for (std::size_t i = 0; i < count; ++i) {
    y[i] = ex2_assemble(x[i], fixed[i] >> 23, std::uint32_t(significand[i]));
  }
}

struct ExpParts {
  float exponent;  // for ex2
  float scale;     // a power of two
};

inline ExpParts exp_reduce(float x) {
  const float shifted = std::fma(x, float_of(0x3bbb989d), 0.5f);
  const float saturated = shifted > 0 ? (shifted < 1 ? shifted : 1.0f) : 0.0f;
  // fma.rm(saturated, 252, 12582913): the product is exact in FP64 and the sum keeps no fraction.
  const std::int32_t step = std::int32_t(252.0 * double(saturated));
  float f = std::fma(x, float_of(0x3fb8aa3b), -float(step - 126));
  f = std::fma(x, float_of(0x32a57060), f);
  return {f, float_of(std::uint32_t(step + 1) << 23)};
}

H3_VECTOR_CLONES void exp_reduce_negated(const float* x, float* exponent, float* scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ExpParts parts = exp_reduce(-x[i]);
    exponent[i] = parts.exponent;
    scale[i] = parts.scale;
  }
}

struct Angle {
  float remainder;  // in [-pi/4, pi/4], up to rounding
  std::uint32_t quadrant;
};

// Payne and Hanek: x times the 192 leading bits of 2/pi, kept as integers.
Angle reduce_large(float x) {
  constexpr std::uint32_t kTwoOverPi[6] = {0x3c439041, 0xdb629599, 0xf534ddc0,
                                           0xfc2757d1, 0x4e441529, 0xa2f9836e};
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t exponent = (bits >> 23 & 0xff) - 128;
  const std::uint32_t significand = bits << 8 | kSign;
  std::uint32_t product[7];
  std::uint64_t carry = 0;
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t sum = std::uint64_t(kTwoOverPi[i]) * significand + carry;
    product[i] = std::uint32_t(sum);
    carry = sum >> 32;
  }
  product[6] = std::uint32_t(carry);

  const std::uint32_t word = exponent >> 5, shift = exponent & 31;
  std::uint32_t high = product[6 - word], low = product[5 - word];
  if (shift != 0) {
    high = (low >> (32 - shift)) + (high << shift);
    low = (product[4 - word] >> (32 - shift)) + (low << shift);
  }
  const std::uint32_t fraction = low >> 30 | high << 2;  // of a quarter turn, signed
  const std::uint32_t half = fraction >> 31;
  const std::uint32_t turns = half + (high >> 30);
  const std::uint32_t flip = half ? 0xffffffffu : 0u;
  const std::int64_t fixed =
      std::int64_t(std::uint64_t(fraction ^ flip) << 32 | std::uint64_t((low << 2) ^ flip));
  const float remainder = float(double(fixed) * std::bit_cast<double>(0x3bf921fb54442d19ull));
  const bool negative = ((bits & kSign) != 0) != (half != 0);
  return {negative ? -remainder : remainder, bits & kSign ? 0u - turns : turns};
}

Angle reduce_angle(float x) {
  if (std::fabs(x) >= 105615.0f) return reduce_large(x);
  const std::int32_t quadrant = std::int32_t(std::rint(x * float_of(0x3f22f983)));
  const float quarters = float(quadrant);  // never -0
  float r = std::fma(quarters, float_of(0xbfc90fda), x);
  r = std::fma(quarters, float_of(0xb3a22168), r);
  r = std::fma(quarters, float_of(0xa7c234c5), r);
  return {r, std::uint32_t(quadrant)};
}

float sine(Angle angle) {
  const bool odd = angle.quadrant & 1;
  const float square = angle.remainder * angle.remainder;
  const float head = odd ? 1.0f : angle.remainder;
  float c = odd ? std::fma(float_of(0x37cbac00), square, float_of(0xbab607ed)) : float_of(0xb94d4153);
  c = std::fma(c, square, float_of(odd ? 0x3d2aaabb : 0x3c0885e4));
  c = std::fma(c, square, float_of(odd ? 0xbeffffff : 0xbe2aaaa8));
  const float y = std::fma(c, std::fma(square, head, 0.0f), head);
  return angle.quadrant & 2 ? std::fma(y, -1.0f, 0.0f) : y;
}

// expf(-x) comes as power * scale.
H3_VECTOR_CLONES void silu_gradient_chunk(const float* dy, const float* x, const float* power, const float* scale,
                                          float* dx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float s = 1.0f / (1.0f + power[i] * scale[i]);
    dx[i] = (dy[i] * s) * std::fma(x[i], 1.0f - s, 1.0f);
  }
}

}  // namespace

float ex2_approx(float x) {
  const std::int32_t fixed = ex2_fixed_point(x);
  const std::uint32_t fraction = std::uint32_t(fixed) & kMantissa;
  return ex2_assemble(x, fixed >> 23, ex2_base(fraction) + std::uint32_t(ex2_residual()[fraction]));
}

void ex2_approx(const float* x, float* y, std::size_t count) {
  const std::int8_t* residual = ex2_residual();
  for (std::size_t i = 0; i < count; i += kChunk)
    ex2_chunk(x + i, y + i, std::min(kChunk, count - i), residual);
}

float rcp_approx(float x) {
  const std::uint32_t bits = bits_of(x), sign = bits & kSign;
  if (x != x) return float_of(kNaN);
  const std::int32_t exponent = std::int32_t(bits >> 23 & 0xff) - 127;
  if (exponent == -127) return float_of(sign | kInfinity);
  if (exponent == 128) return float_of(sign);
  const std::uint32_t mantissa = bits & kMantissa;
  const std::int32_t scaled =
      std::int32_t(rcp_base(mantissa)) + rcp_residual()[mantissa] - exponent * (1 << 23);
  return float_of(sign | (scaled < 0x00800000 ? 0u : std::uint32_t(scaled)));
}

float rsqrt_approx(float x) {
  const std::uint32_t bits = bits_of(x);
  if (x != x) return float_of(kNaN);
  const std::int32_t exponent = std::int32_t(bits >> 23 & 0xff) - 127;
  if (exponent == -127) return float_of((bits & kSign) | kInfinity);
  if (bits & kSign) return float_of(kNaN);
  if (exponent == 128) return 0.0f;
  const std::int32_t odd = exponent & 1;
  const std::uint32_t entry = std::uint32_t(odd) << 23 | (bits & kMantissa);
  return float_of(std::uint32_t(std::int32_t(rsqrt_base(entry)) + rsqrt_residual()[entry] -
                                (exponent - odd) / 2 * (1 << 23)));
}

float lg2_approx(float x) {
  const std::uint32_t bits = bits_of(x);
  if (!(x >= 1.0f)) return float_of(kNaN);
  if (bits == kInfinity) return x;
  std::uint64_t fixed = std::uint64_t((bits >> 23) - 127) << kLg2Unit | lg2_table()[bits & kMantissa];
  const int dropped = std::bit_width(fixed) - 24;
  if (dropped > 0) fixed = fixed >> dropped << dropped;
  return float(fixed) * 0x1p-36f;
}

float cuda_expf(float x) {
  const ExpParts parts = exp_reduce(x);
  const float y = ex2_approx(parts.exponent) * parts.scale;
  return y != y ? float_of(kNaN) : y;
}

float cuda_sinf(float x) {
  if (!(std::fabs(x) < float_of(kInfinity))) return float_of(kNaN);
  return sine(reduce_angle(x));
}

float cuda_cosf(float x) {
  if (!(std::fabs(x) < float_of(kInfinity))) return float_of(kNaN);
  Angle angle = reduce_angle(x);
  ++angle.quadrant;
  return sine(angle);
}

float silu_fp32(float x) { return x / (1.0f + cuda_expf(-x)); }

void silu_fp32(const float* x, float* y, std::size_t count) {
  float power[kChunk], scale[kChunk];
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t n = std::min(kChunk, count - i);
    exp_reduce_negated(x + i, power, scale, n);
    ex2_approx(power, power, n);
    for (std::size_t j = 0; j < n; ++j) y[i + j] = x[i + j] / (1.0f + power[j] * scale[j]);
  }
}

float silu_gradient_fp32(float dy, float x) {
  const float s = 1.0f / (1.0f + cuda_expf(-x));
  return (dy * s) * std::fma(x, 1.0f - s, 1.0f);
}

void silu_gradient_fp32(const float* dy, const float* x, float* dx, std::size_t count) {
  float power[kChunk], scale[kChunk];
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t n = std::min(kChunk, count - i);
    exp_reduce_negated(x + i, power, scale, n);
    ex2_approx(power, power, n);
    silu_gradient_chunk(dy + i, x + i, power, scale, dx + i, n);
  }
}

}  // namespace h3::numerics
