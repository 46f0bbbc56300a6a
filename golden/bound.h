// How far a correct low-precision evaluation may lie from its golden, element by element. Derived from the
// rounding points of the provider's arithmetic alone, given the same inputs; the bound of a row stands beside
// its golden as <row>_bound and takes the same arguments. First-order terms, enlarged by kSecondOrder.
#pragma once

#include <cmath>

#include "model/tensor.h"

namespace h3::golden {

inline constexpr double kBf16Unit = 0x1p-8;   // relative error of one rounding to BF16
inline constexpr double kFp32Unit = 0x1p-24;  // and to FP32
inline constexpr double kSecondOrder = 1 + 0x1p-5;

// Error of an FP32 sum of n products, relative to the sum of their magnitudes: any order, rounded or
// truncated.
inline double fp32_sum_unit(std::int64_t n) { return double(n + 1) * 2 * kFp32Unit; }

Tensor absolute(const Tensor& x);  // |x|, same dtype

// FP32, shaped like y: kSecondOrder * bound(i) for every element.
template <class Bound>
Tensor bound_of(const Tensor& y, const Bound& bound) {
  Tensor limits(DType::fp32, y.shape());
  for (std::int64_t i = 0; i < y.elements(); ++i) limits.data<float>()[i] = float(kSecondOrder * bound(i));
  return limits;
}

}  // namespace h3::golden
