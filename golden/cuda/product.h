// The products of golden/product.h on a GPU: operands and sums in FP64, one rounding at the end.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

// A tensor as rows over which a sum runs: its own, or, `by_columns`, its columns.
struct DeviceOperand {
  const Tensor& tensor;
  bool by_columns;
  std::int64_t rows, depth;
};

// (rows of x, rows of w). Operands lie on either side; bias, or null, on the CPU. A weight gradient, the one
// whose operands are both by columns, stays on the GPU; other results come to the CPU.
Tensor product_on_gpu(const DeviceOperand& x, const DeviceOperand& w, const Tensor* bias, DType out,
                      const Shape& shape);

}  // namespace h3::golden
