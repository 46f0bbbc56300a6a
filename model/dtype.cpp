#include "model/dtype.h"

namespace h3 {

float to_float(Fp16 word) {
  const std::uint32_t w = std::uint32_t(word), sign = (w & 0x8000u) << 16, exponent = (w >> 10) & 31,
                      fraction = w & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(float(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

Fp16 to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), sign = (bits >> 16) & 0x8000u,
                      magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return Fp16(0x7fff);
  if (magnitude >= 0x477ff000u) return Fp16(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {                              // subnormal: quantum 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    const float nearest = std::nearbyint(scaled);
    return Fp16(sign | std::uint32_t(nearest));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return Fp16(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace h3
