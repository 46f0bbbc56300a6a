// What measuring leaves and what a Comparison says of it: the last step of compare(), wherever the elements
// lie.
#pragma once

#include "harness/compare/compare.h"

namespace h3 {

struct ComparisonSums {
  double error2 = 0, expected2 = 0, actual2 = 0, product = 0;
};

// Not empty: why the two cannot be compared.
std::string mismatch_of(const Tensor& expected, const Tensor& actual);

// `counts` with all that follows from them, from the sums and from the tensor's shape.
Comparison finished(Comparison counts, const ComparisonSums& sums, const Tensor& actual);

}  // namespace h3
