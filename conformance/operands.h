// Operands of products as functions of (name, index), the same as fixtures/export_products.py draws: the
// near-normal integers of model/synthetic.h times a power of two, rounded to BF16.
#pragma once

#include <cmath>
#include <string>

#include "model/parallel.h"
#include "model/synthetic.h"
#include "model/tensor.h"

namespace h3 {

inline constexpr std::uint64_t kOperandSeed = 7;

class OperandSource {
 public:
  OperandSource(const std::string& name, int log2_std)
      : key_(synthetic_key(kOperandSeed, name)), scale_(std::ldexp(kSyntheticPerSigma, log2_std)) {}
  Bf16 at(std::int64_t index) const {
    return to_bf16(float(synthetic_normal(key_, std::uint64_t(index))) * scale_);
  }
  std::uint64_t word(std::int64_t index) const { return mix64(key_ + std::uint64_t(index) * kSyntheticStep); }

 private:
  std::uint64_t key_;
  float scale_;
};

inline Tensor normal_operand(const std::string& name, const Shape& shape, int log2_std = 0) {
  Tensor tensor(DType::bf16, shape);
  const OperandSource source(name, log2_std);
  Bf16* words = tensor.data<Bf16>();
  parallel_for(0, tensor.elements(), 1 << 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) words[i] = source.at(i);
  });
  return tensor;
}

// Integers from -limit to limit, exact in BF16 for limits up to 256.
inline Tensor integer_operand(const std::string& name, const Shape& shape, int limit) {
  Tensor tensor(DType::bf16, shape);
  const OperandSource source(name, 0);
  std::int64_t index = 0;
  for (Bf16& word : tensor.values<Bf16>())
    word = to_bf16(float(int(source.word(index++) % std::uint64_t(2 * limit + 1)) - limit));
  return tensor;
}

}  // namespace h3
