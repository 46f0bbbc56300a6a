#include "golden/qk_norm.h"

#include "golden/rms_norm.h"

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

Tensor qk_norm_bound(const Tensor& x, const Tensor& weight, double eps) {
  return rms_norm_bound(heads_as_rows(x, weight.elements()), weight, eps).reshaped(x.shape());
}

}  // namespace h3::golden
