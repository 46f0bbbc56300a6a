// compare() where both tensors lie on the GPU: gradients of weights, which would take longer to fetch than to
// compute. Counts, places and largest values are those of compare(); its sums are added in another fixed
// order. Only in builds with a CUDA toolkit.
#pragma once

#include "harness/compare/compare.h"

namespace h3 {

// `expected` is FP32 and `actual` BF16 or FP32; anything else is a mismatch.
Comparison compare_on_gpu(const Tensor& expected, const Tensor& actual);

// XXH3-128 of a tensor on the GPU, fetched piece by piece.
std::string xxh3_128_on_gpu(const Tensor& tensor);

}  // namespace h3
