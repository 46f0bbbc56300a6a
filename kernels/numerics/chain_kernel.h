// What an instruction set provides for the chain: packing of a block of operands, and a pass over it.
// chain.cpp walks the matrices with it; chain_simd.h is the algorithm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/dtype.h"

namespace h3::numerics {

inline constexpr std::int64_t kBlockSteps = 8;                 // steps of 16 in a block
inline constexpr std::int64_t kBlockDepth = 16 * kBlockSteps;  // a panel of B fits the first-level cache
inline constexpr std::int64_t kMaxTileColumns = 64;

// Why a step cannot take the fast path as it is (see chain_simd.h).
struct Flags {
  std::uint8_t
      careful[kBlockSteps];  // an operand so small, or significands so large, that the step checks itself
  std::uint8_t exact;        // an operand so large, or not finite, that the block runs in integers
};

// Rows of A over one block of the depth. Exponents are laid out as the instruction set broadcasts them.
struct PackedRows {
  float* values;            // [row][kBlockDepth]
  std::int32_t* exponents;  // [row][kBlockDepth]
  Flags* flags;             // [row]
};

// `tile_columns` rows of B over one block of the depth, side by side.
struct PackedPanel {
  float* values;    // [kBlockDepth][tile_columns]
  void* exponents;  // [kBlockDepth][tile_columns], int8 or int16
  Flags* flags;     // one
};

struct ChainKernel {
  std::int64_t tile_columns;
  std::size_t exponent_bytes;
  // words [rows][kBlockDepth] -> out
  void (*pack_rows)(const Bf16* words, std::int64_t rows, const PackedRows& out);
  // words [kBlockDepth][tile_columns] -> out
  void (*pack_panel)(const Bf16* words, const PackedPanel& out);
  // Continues the chains in c [row][tile_columns] by `steps` steps.
  void (*run)(const PackedRows& a, std::int64_t rows, const PackedPanel& b, std::int64_t steps, float* c);
};

// Null where the build or this machine lacks the instruction set.
const ChainKernel* chain_kernel_portable();
const ChainKernel* chain_kernel_avx2();
const ChainKernel* chain_kernel_avx512();

}  // namespace h3::numerics
