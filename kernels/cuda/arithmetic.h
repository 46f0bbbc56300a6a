// Whether this build's kernels round as IEEE says: asked of the GPU itself, once, before strict kernels run.
#pragma once

#include <cstdint>
#include <string>

namespace h3::cuda {

// Empty, or what the compiler was allowed to change, one line: contraction, flushed subnormals, division,
// square root.
std::string wrong_arithmetic();

// What kernels/cuda/packed.cuh says of sums, differences and products: of all pairs of BF16 words and of FP16
// words, how many results are not R of the FP32 operation, bit for bit.
struct PackedDifferences {
  std::uint64_t bf16, fp16;
};
PackedDifferences packed_differences();

}  // namespace h3::cuda
