#include "golden/cuda/product.h"

#include "golden/cuda/dgemm.h"
#include "golden/cuda/wide.h"
#include "kernels/cuda/device.h"

namespace h3::golden {

Tensor product_on_gpu(const DeviceOperand& x, const DeviceOperand& w, const Tensor* bias, DType out,
                      const Shape& shape) {
  static WideMemory memory_x, memory_w, memory_y, memory_bias;
  double *wide_x = memory_x.of(x.tensor.elements()), *wide_w = memory_w.of(w.tensor.elements()),
         *wide_y = memory_y.of(x.rows * w.rows),
         *wide_bias = bias ? memory_bias.of(bias->elements()) : nullptr;
  widen(x.tensor, wide_x);
  widen(w.tensor, wide_w);
  if (bias) widen(*bias, wide_bias);
  dgemm().run({x.rows, w.rows, x.depth}, {wide_x, x.by_columns ? x.rows : x.depth, x.by_columns},
              {wide_w, w.by_columns ? w.rows : w.depth, !w.by_columns}, {wide_y, w.rows});
  const Tensor y = narrowed(wide_y, wide_bias, out, shape);
  return x.by_columns && w.by_columns ? y : cuda::download(y);
}

}  // namespace h3::golden
