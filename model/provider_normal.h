// The provider's random numbers: torch's CPU generator and its normal distribution in FP32, bitwise. No noise
// of a request is ever drawn on a GPU: what a GPU draws depends on how many multiprocessors it has.
//
// The generator is MT19937, seeded with the low 32 bits of the seed. A draw of at least 16 numbers fills them
// with uniforms (24 bits of one word each), then turns every 16 of them into 16 normals: j and j + 8 are the
// radius and the angle of a pair. A rest below 16 is served by drawing the last 16 places again. Logarithm,
// sine and cosine are Cephes' single-precision polynomials with fused multiply-adds, as torch computes them
// on x86-64 with AVX2 or AVX-512; on another machine it takes the C library's, and last bits differ. A draw
// of fewer than 16 numbers goes through double precision, one Box-Muller pair per two numbers; the second
// number of a pair stays for the next such draw.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "model/tensor.h"

namespace h3 {

class ProviderGenerator {
 public:
  explicit ProviderGenerator(std::uint64_t seed);

  Tensor normal(const Shape& shape);  // FP32, as torch.randn(shape, generator=...)

 private:
  std::uint32_t word();  // MT19937
  float uniform();       // [0, 1), 24 bits
  double uniform_double();
  double pair_member();
  void fill_16(std::span<float, 16> numbers);

  static constexpr std::size_t kWords = 624;
  std::array<std::uint32_t, kWords> state_;
  std::size_t next_ = kWords;
  std::optional<double> kept_;  // second member of a pair in double precision
};

}  // namespace h3
