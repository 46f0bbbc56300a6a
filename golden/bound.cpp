#include "golden/bound.h"

namespace h3::golden {

Tensor absolute(const Tensor& x) {
  require(x.dtype() == DType::bf16 || x.dtype() == DType::fp32 || x.dtype() == DType::fp64,
          "golden absolute: {}, expected bf16, fp32 or fp64", name_of(x.dtype()));
  Tensor y = x.clone();
  const std::size_t size = size_of(x.dtype());
  for (std::size_t last = size - 1; last < y.size_bytes(); last += size) y.bytes()[last] &= std::byte{0x7f};
  return y;
}

}  // namespace h3::golden
