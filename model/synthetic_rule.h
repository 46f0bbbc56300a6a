// The arithmetic of the synthetic checkpoint, one element at a time; the same source for host and device, and
// nothing included that nvcc would have to know.
//
// Every value is a function of (seed, tensor name, element index) and of nothing else, in integer arithmetic,
// one FP32 multiply, one FP32 add and one rounding to the storage type. So any part of any tensor can be had
// on demand, on any machine, with the same bytes.
//
//   key    = mix(FNV-1a(name) started from the seed)
//   n      = sum of the four 16-bit fields of mix(key + index * kStep), minus 131070: near normal, std kSigma
//   value  = round_to_dtype(fp32(fp32(n * scale) + mean)),   scale = fp32(std / kSigma)
//
// scale and mean may differ by channel (SyntheticRule::affine). In a `planted` tensor one element of each
// aligned group of 4096 is an exact zero, a negative zero or a power of two instead.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#ifndef H3_HD
#ifdef __CUDACC__
#define H3_HD __host__ __device__
#else
#define H3_HD
#endif
#endif

namespace h3 {

H3_HD constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

constexpr std::uint64_t synthetic_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ mix64(seed + 1);
  for (const char c : name) hash = (hash ^ std::uint8_t(c)) * 0x100000001b3u;
  return mix64(hash);
}

inline constexpr std::uint64_t kSyntheticStep = 0x9e3779b97f4a7c15u;
inline constexpr float kSyntheticPerSigma = 0x1.bb67aep-16f;  // 1 / kSigma = sqrt(3) / 65536, nearest FP32
inline constexpr std::int64_t kPlantGroup = 4096;
inline constexpr int kOutliers = 4;  // channels of a tensor that stand out

H3_HD constexpr std::int32_t synthetic_normal(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t x = mix64(key + index * kSyntheticStep);
  const std::uint64_t pairs = (x & 0x0000ffff0000ffffu) + ((x >> 16) & 0x0000ffff0000ffffu);
  return std::int32_t(std::uint32_t(pairs) + std::uint32_t(pairs >> 32)) - 131070;
}

struct Affine {
  float scale, mean;
};

// Two FP32 operations, each rounded; never contracted to one.
H3_HD inline float synthetic_value(std::int32_t normal, Affine affine) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(float(normal), affine.scale), affine.mean);
#else
  const float scaled = float(normal) * affine.scale;
  return scaled + affine.mean;
#endif
}

// Which elements of a tensor leave the common distribution, besides planted ones.
enum class Pattern : std::uint8_t {
  even,        // none
  outliers,    // kOutliers channels are `outlier_factor` times as large
  modulation,  // AdaLN: gates around gate_mean, some scales close to +-1/256, where adding one in BF16 loses
               // them
};

struct SyntheticRule {
  std::uint64_t key = 0;
  float std = 1, mean = 0;
  bool planted = false;
  Pattern pattern = Pattern::even;
  std::int64_t channels = 1, inner = 1;  // channel of an element = index / inner % channels
  std::int64_t outlier[kOutliers] = {};  // ascending channels
  float outlier_factor = 1;              // a power of two
  std::int64_t part_width = 1;           // modulation: channels of a tag are six parts of this width
  float gate_mean = 0, small_scale = 0;  // modulation: mean of gate parts; size of the small scales

  H3_HD bool is_outlier(std::int64_t channel) const {
    bool found = false;
    for (int i = 0; i < kOutliers; ++i) found |= outlier[i] == channel;
    return found;
  }

  H3_HD Affine affine(std::int64_t index) const {
    Affine result = {std * kSyntheticPerSigma, mean};
    const std::int64_t channel = index / inner % channels;
    if (pattern == Pattern::outliers && is_outlier(channel)) {
      result.scale *= outlier_factor;
      result.mean *= outlier_factor;
    }
    if (pattern == Pattern::modulation) {
      const std::int64_t part = channel / part_width % 6, column = channel % part_width;
      if (part % 3 == 2) result.mean = gate_mean;
      if (part % 3 == 1 && column % 64 == 5) {
        result.scale *= 0x1p-7f;
        result.mean = column / 64 % 2 ? -small_scale : small_scale;
      }
    }
    return result;
  }

  // The group's planted element: where it is and what it holds.
  H3_HD std::uint64_t plant(std::int64_t group) const {
    return mix64((key ^ 0x5bd1e9955bd1e995u) + std::uint64_t(group) * kSyntheticStep);
  }
  H3_HD static std::int64_t planted_index(std::int64_t group, std::uint64_t plant) {
    return group * kPlantGroup + std::int64_t(plant % kPlantGroup);
  }
  H3_HD std::uint32_t planted_bits(std::uint64_t plant) const {  // of an FP32 number that BF16 holds exactly
#ifdef __CUDA_ARCH__
    const std::uint32_t exponent = __float_as_uint(std) >> 23;
#else
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(std) >> 23;
#endif
    const std::uint32_t sign = std::uint32_t(plant >> 20 & 1) << 31;
    if (plant >> 12 & 1) return sign;                                     // +0 or -0
    return sign | (exponent - 3 + std::uint32_t(plant >> 16 & 7)) << 23;  // around the tensor's own std
  }

  // The FP32 value of an element, before the rounding to a BF16 tensor.
  H3_HD float at(std::int64_t index) const {
    const std::uint64_t group_plant = plant(index / kPlantGroup);
    if (planted && planted_index(index / kPlantGroup, group_plant) == index) {
#ifdef __CUDA_ARCH__
      return __uint_as_float(planted_bits(group_plant));
#else
      return std::bit_cast<float>(planted_bits(group_plant));
#endif
    }
    return synthetic_value(synthetic_normal(key, std::uint64_t(index)), affine(index));
  }
};

}  // namespace h3
