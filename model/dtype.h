// Element types and their storage formats. This is the vocabulary of every room: kernels and goldens agree on
// what a BF16 word means, and on nothing else.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace h3 {

enum class DType : std::uint8_t { bf16, fp16, fp32, fp64, i64 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp32:
      return 4;
    case DType::fp64:
    case DType::i64:
      return 8;
  }
  return 0;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp32:
      return "fp32";
    case DType::fp64:
      return "fp64";
    case DType::i64:
      return "i64";
  }
  return "?";
}

// A 16-bit word of the format, not a number: convert explicitly.
enum class Bf16 : std::uint16_t {};
enum class Fp16 : std::uint16_t {};

constexpr float to_float(Bf16 word) { return std::bit_cast<float>(std::uint32_t(word) << 16); }

// Round to nearest even. NaN becomes the quiet NaN 0x7fff, as the GPU's conversion writes it.
constexpr Bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bf16(0x7fff);
  return Bf16((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// R(.) of the arithmetic descriptions: one rounding to BF16, kept in FP32.
constexpr float round_bf16(float value) { return to_float(to_bf16(value)); }

float to_float(Fp16 word);
Fp16 to_fp16(float value);  // round to nearest even

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Fp16> {
  static constexpr DType value = DType::fp16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::fp32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::fp64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};

}  // namespace h3
