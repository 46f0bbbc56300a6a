#include "kernels/qk_norm.h"

#include "kernels/checks.h"
#include "kernels/rms_norm.h"

namespace h3::kernels {

void qk_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y) {
  constexpr const char* kRow = "qk_norm";
  require_dtype(kRow, "x", x, {DType::bf16, DType::fp16, DType::fp32});
  require_dtype(kRow, "weight", weight, {x.dtype()});
  const std::int64_t width = weight.elements();
  require(x.cols() % width == 0, "{}: x is {}, expected whole heads of {} channels", kRow,
          to_string(x.shape()), width);
  require_tensor(kRow, "y", y, x.dtype(), x.shape());
  const Shape heads = {x.elements() / width, width};
  Tensor normed = y.reshaped(heads);
  rms_norm(x.reshaped(heads), weight, eps, normed);
}

}  // namespace h3::kernels
