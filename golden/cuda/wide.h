// FP64 memory on the GPU and the ways into it and out of it.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

// Memory that grows to the largest use and stays. What an earlier use left in it is overwritten.
class WideMemory {
 public:
  double* of(std::int64_t elements);

 private:
  Tensor held_;
};

// The elements of an FP32, BF16 or FP64 tensor on either side, widened exactly.
void widen(const Tensor& x, double* to);

// (rows, cols) of FP64 as FP32 (rounded once) or FP64, on the GPU, with a bias (cols) FP64 on the GPU, or
// null, added first.
Tensor narrowed(const double* y, const double* bias, DType dtype, const Shape& shape);

}  // namespace h3::golden
