#include "golden/qk_norm.h"

#include "golden/rms_norm.h"

namespace h3::golden {

Tensor qk_norm(const Tensor& x, const Tensor& weight, double eps) {
  const std::int64_t head_dim = weight.elements();
  require(x.cols() % head_dim == 0, "golden qk_norm: {} columns, expected whole heads of {}", x.cols(),
          head_dim);
  return rms_norm(x.reshaped({x.elements() / head_dim, head_dim}), weight, eps).reshaped(x.shape());
}

}  // namespace h3::golden
