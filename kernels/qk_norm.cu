#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"

namespace h3::kernels::cuda {

void qk_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Stream stream) {
  const std::int64_t width = weight.elements();
  require(width > 0 && x.cols() % width == 0 && x.shape() == y.shape(),
          "qk_norm: x is {}, y is {}, expected one shape with whole heads of {} channels", to_string(x.shape()),
          to_string(y.shape()), width);
  const Shape heads = {x.elements() / width, width};
  Tensor normed = y.reshaped(heads);
  rms_norm(x.reshaped(heads), weight, eps, normed, stream);
}

void qk_norm_backward(const Tensor& x, const Tensor& weight, float eps, const Tensor& dy, Tensor& dx,
                      Tensor& dweight, Tensor& workspace, Stream stream) {
  const std::int64_t width = weight.elements();
  require(width > 0 && x.cols() % width == 0 && x.shape() == dy.shape() && x.shape() == dx.shape(),
          "qk_norm_backward: x is {}, dy is {}, dx is {}, expected one shape with whole heads of {} channels",
          to_string(x.shape()), to_string(dy.shape()), to_string(dx.shape()), width);
  const Shape heads = {x.elements() / width, width};
  Tensor by_rows = dx.reshaped(heads);
  rms_norm_backward(x.reshaped(heads), weight, eps, dy.reshaped(heads), by_rows, dweight, workspace, stream);
}

}  // namespace h3::kernels::cuda
