// The sum a Hopper tensor core computes for BF16 operands and an FP32 accumulator, as integers.
//
// One step takes the accumulator c and 16 products a[k] * b[k]:
//   1. products are exact; a product's exponent is the sum of its operands' exponents, so its significand
//   lies in
//      [1, 4) and is not normalised;
//   2. the products and c are aligned to the largest exponent among them and truncated toward zero to 25
//      fractional bits below it;
//   3. the 17 integers are added exactly and the sum is truncated toward zero to FP32.
// A chain walks its depth in ascending steps of 16, the last one filled up with zeros. Every output element
// is one chain, so it depends on its own row of `a` and of `b` and on nothing else: not on tiles, threads or
// neighbours.
//
// Every implementation gives the same bits as `chain_reference`. What is assumed about operands that a
// healthy model never shows (subnormals, infinities, overflow) is said in chain_step.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/tensor.h"

namespace h3::numerics {

inline constexpr std::int64_t kChainStep = 16;

// A matrix of BF16 words as a chain reads it: `rows` rows, each `depth` words long in the direction of the
// sum.
struct Operand {
  const Bf16* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t row_stride = 0;    // words from a row to the next
  std::int64_t depth_stride = 1;  // words from an element of the sum to the next
};

// A BF16 tensor seen as a matrix (outer extents x innermost): the sum runs along the innermost extent ...
Operand rows_of(const Tensor& matrix);
// ... or across it. With x (S,K), W (N,K), dy (S,N):
//   y = rows_of(x), rows_of(W)      dX = rows_of(dy), columns_of(W)      dW = columns_of(dy), columns_of(x)
Operand columns_of(const Tensor& matrix);

// c[i * c_stride + j] = the chain over a's row i and b's row j. It starts from `start` (laid out as c, and c
// itself is allowed), or from +0 where start is null. FP32. Throws Error if the depths differ or a stride is
// too small.
void chain(const Operand& a, const Operand& b, const float* start, float* c, std::int64_t c_stride);

// The same straight from the rule above, one element at a time. Slow; what the fast ones are held against.
void chain_reference(const Operand& a, const Operand& b, const float* start, float* c, std::int64_t c_stride);

// Implementations by instruction set, for tests and measurements. `chain` takes the best one that this
// machine has, or the one named by the environment variable H3_CHAIN_ISA (portable, avx2, avx512).
enum class ChainIsa { portable, avx2, avx512 };
const char* name_of(ChainIsa isa);
std::vector<ChainIsa> available_chain_isas();  // best last
ChainIsa chosen_chain_isa();                   // what `chain` takes
void chain_with(ChainIsa isa, const Operand& a, const Operand& b, const float* start, float* c,
                std::int64_t c_stride);

}  // namespace h3::numerics
