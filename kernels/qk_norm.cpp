#include "kernels/qk_norm.h"

#include "kernels/checks.h"
#include "kernels/rms_norm.h"

namespace h3::kernels {

namespace {

// (S * heads, d): every head a row.
Shape by_head(const char* row, const Tensor& x, const Tensor& weight) {
  require_dtype(row, "x", x, {DType::bf16, DType::fp16, DType::fp32});
  require_dtype(row, "weight", weight, {x.dtype()});
  const std::int64_t width = weight.elements();
  require(x.cols() % width == 0, "{}: x is {}, expected whole heads of {} channels", row,
          to_string(x.shape()), width);
  return {x.elements() / width, width};
}

}  // namespace

void qk_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y) {
  constexpr const char* kRow = "qk_norm";
  const Shape heads = by_head(kRow, x, weight);
  require_tensor(kRow, "y", y, x.dtype(), x.shape());
  Tensor normed = y.reshaped(heads);
  rms_norm(x.reshaped(heads), weight, eps, normed);
}

void qk_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                      Tensor& dweight) {
  constexpr const char* kRow = "qk_norm_backward";
  const Shape heads = by_head(kRow, x, weight);
  require_tensor(kRow, "dy", dy, x.dtype(), x.shape());
  require_tensor(kRow, "dx", dx, x.dtype(), x.shape());
  Tensor by_rows = dx.reshaped(heads);
  rms_norm_backward(x.reshaped(heads), weight, eps, dy.reshaped(heads), by_rows, dweight);
}

}  // namespace h3::kernels
