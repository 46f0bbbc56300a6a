// The elements of a tensor as FP64, whichever type a node's border has. Borders hold FP32; where a node's
// first operand holds FP64 its result does, too: finite differences of the goldens see no rounding.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

inline DType border_of(const Tensor& x) { return x.dtype() == DType::fp64 ? DType::fp64 : DType::fp32; }

// The same tensor when it holds FP32 or FP64, else an exactly widened copy (BF16, FP16).
inline Tensor widened(const Tensor& x) { return x.dtype() == border_of(x) ? x : x.to(DType::fp32); }

// The elements of an FP32 or FP64 tensor, from one of them on.
class Reals {
 public:
  explicit Reals(const Tensor& x) {
    if (x.dtype() == DType::fp64)
      wide_ = x.data<double>();
    else
      narrow_ = x.data<float>();
  }
  double operator[](std::int64_t i) const { return wide_ ? wide_[i] : double(narrow_[i]); }
  Reals operator+(std::int64_t i) const {
    Reals later = *this;
    if (wide_)
      later.wide_ += i;
    else
      later.narrow_ += i;
    return later;
  }

 private:
  const float* narrow_ = nullptr;
  const double* wide_ = nullptr;
};

// Where a node's result goes: the one rounding of an FP32 border.
class Store {
 public:
  explicit Store(Tensor& y) {
    if (y.dtype() == DType::fp64)
      wide_ = y.data<double>();
    else
      narrow_ = y.data<float>();
  }
  void set(std::int64_t i, double value) const {
    if (wide_)
      wide_[i] = value;
    else
      narrow_[i] = float(value);
  }

 private:
  float* narrow_ = nullptr;
  double* wide_ = nullptr;
};

}  // namespace h3::golden
