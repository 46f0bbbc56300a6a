#include "kernels/widening.h"

#include "kernels/checks.h"
#include "kernels/numerics/rows.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

constexpr std::int64_t kRun = 1 << 16;  // elements of a work item

}  // namespace

void widening(const Tensor& x, Tensor& y) {
  require_dtype("widening", "x", x, {DType::bf16});
  require_tensor("widening", "y", y, DType::fp32, x.shape());
  parallel_for(0, x.elements(), kRun, [&](std::int64_t first, std::int64_t last) {
    numerics::widen(x, first, last - first, y.data<float>() + first);
  });
}

void widening_backward(const Tensor& dy, Tensor& dx) {
  require_dtype("widening_backward", "dy", dy, {DType::fp32});
  require_tensor("widening_backward", "dx", dx, DType::bf16, dy.shape());
  parallel_for(0, dy.elements(), kRun, [&](std::int64_t first, std::int64_t last) {
    numerics::narrow(dy.data<float>() + first, first, last - first, dx);
  });
}

}  // namespace h3::kernels
