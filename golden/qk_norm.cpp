#include "golden/qk_norm.h"

namespace h3::golden {

namespace {

// Every head a row of its own.
Tensor heads_as_rows(const Tensor& x, std::int64_t head_dim) {
  require(x.cols() % head_dim == 0, "golden qk_norm: {} columns, expected whole heads of {}", x.cols(),
          head_dim);
  return x.reshaped({x.elements() / head_dim, head_dim});
}

}  // namespace

Tensor qk_norm(const Tensor& x, const Tensor& weight, double eps) {
  return rms_norm(heads_as_rows(x, weight.elements()), weight, eps).reshaped(x.shape());
}

RmsNormGradients qk_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& gradient) {
  const std::int64_t head_dim = weight.elements();
  const auto [dx, dweight] =
      rms_norm_backward(heads_as_rows(x, head_dim), weight, eps, heads_as_rows(gradient, head_dim));
  return {dx.reshaped(x.shape()), dweight};
}

Tensor qk_norm_bound(const Tensor& x, const Tensor& weight, double eps) {
  return rms_norm_bound(heads_as_rows(x, weight.elements()), weight, eps).reshaped(x.shape());
}

}  // namespace h3::golden
