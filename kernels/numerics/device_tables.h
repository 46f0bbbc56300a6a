// The captured tables behind device_functions.h. All but the logarithm's as one byte per entry: the distance,
// in units in the last place, from a base that every machine computes alike (separately rounded FP32
// operations; FP64 division and square root).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace h3::numerics {

// A captured table, in order: the bits of FP32 values, or fixed-point words. A dataset holds the differences
// of consecutive entries; its attributes hold the first entry and the SHA-256 of the whole table as
// little-endian words. Anything else is an h3::Error. <std::int8_t, std::uint32_t> and <std::int16_t,
// std::uint64_t>.
template <class Step, class Word>
std::vector<Word> captured_table(const std::string& path, const std::string& name, std::size_t entries);

// Each is read on its first call, checked against the SHA-256 of the captured table, and kept.
const std::int8_t* ex2_residual();    // 2^23 entries: ex2 of entry / 2^23
const std::int8_t* rcp_residual();    // 2^23 entries: the reciprocal of 1 + entry / 2^23
const std::int8_t* rsqrt_residual();  // 2^24 entries: of the floats of [1, 4) in order

inline constexpr int kLg2Unit = 36;
const std::uint64_t* lg2_table();  // 2^23 entries, in units of 2^-36: the logarithm of 1 + entry / 2^23

// Bits of the base. ex2: a polynomial of degree five, a few units from the truth.
inline std::uint32_t ex2_base(std::uint32_t entry) {
  const float u = float(std::int32_t(entry)) * 0x1p-23f;
  float p = 1.8775767e-3f;
  p = p * u + 8.9893397e-3f;
  p = p * u + 5.5826318e-2f;
  p = p * u + 2.4015361e-1f;
  p = p * u + 6.9315308e-1f;
  p = p * u + 9.9999994e-1f;
  return std::bit_cast<std::uint32_t>(p);
}

inline std::uint32_t rcp_base(std::uint32_t entry) {
  return std::bit_cast<std::uint32_t>(float(1.0 / double(std::bit_cast<float>(0x3f800000u + entry))));
}

inline std::uint32_t rsqrt_base(std::uint32_t entry) {
  return std::bit_cast<std::uint32_t>(
      float(1.0 / std::sqrt(double(std::bit_cast<float>(0x3f800000u + entry)))));
}

}  // namespace h3::numerics
