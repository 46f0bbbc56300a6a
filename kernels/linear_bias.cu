#include "kernels/cuda/device.h"
#include "kernels/cuda/row_sum.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/linear.h"

namespace h3::kernels::cuda {

std::int64_t linear_bias_workspace(std::int64_t rows, std::int64_t outputs) {
  return h3::cuda::runs_of(rows).count * outputs;
}

void linear_bias_gradient(const Tensor& dy, Tensor& dbias, Tensor& workspace, Stream stream) {
  constexpr const char* kRow = "linear_bias_gradient";
  require(!dy.shape().empty(), "{}: dy is {}, expected a matrix", kRow, to_string(dy.shape()));
  h3::cuda::require_tensor(kRow, "dy", dy, DType::bf16, dy.shape());
  h3::cuda::require_tensor(kRow, "dbias", dbias, DType::bf16, {dy.cols()});
  h3::cuda::sum_all_rows(kRow, dy, dbias, workspace, stream);
}

}  // namespace h3::kernels::cuda
