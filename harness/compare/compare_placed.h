// compare() and digests of tensors wherever an execution keeps them: on the GPU if one of the two lies there.
#pragma once

#include "harness/compare/compare.h"

namespace h3 {

Comparison compare_placed(const Tensor& expected, const Tensor& actual);
std::string xxh3_128_placed(const Tensor& tensor);

}  // namespace h3
