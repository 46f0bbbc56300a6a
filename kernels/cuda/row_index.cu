#include "kernels/cuda/row_index.h"

#include "kernels/cuda/device.h"

namespace h3::cuda {

RowIndex::RowIndex(const Tensor& index, std::int64_t limit) : limit_(limit) {
  require(index.device() == Device::cpu && index.dtype() == DType::i64 && index.elements() > 0,
          "row index: expected a non-empty i64 tensor on the CPU");
  const auto values = index.values<std::int64_t>();
  for (std::size_t s = 0; s < values.size(); ++s)
    require(values[s] >= 0 && values[s] < limit, "row index: index[{}] is {}, expected 0..{}", s, values[s], limit - 1);
  on_device_ = upload(index);
}

}  // namespace h3::cuda
