#include "harness/row_subset.h"

#include <cstring>

namespace h3 {

Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> rows) {
  Shape shape = tensor.shape();
  require(!shape.empty() && shape[0] > 0, "gather_rows: tensor {} has no rows", to_string(shape));
  const std::size_t stride = tensor.size_bytes() / std::size_t(shape[0]);
  const std::int64_t available = shape[0];
  shape[0] = std::int64_t(rows.size());
  Tensor gathered(tensor.dtype(), shape);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    require(rows[i] >= 0 && rows[i] < available, "gather_rows: row {} of {}", rows[i], available);
    std::memcpy(gathered.bytes() + i * stride, tensor.bytes() + std::size_t(rows[i]) * stride, stride);
  }
  return gathered;
}

std::vector<Tensor> inputs_of_rows(const Node& node, std::span<const Tensor> inputs,
                                   std::span<const std::int64_t> rows) {
  std::vector<Tensor> subset;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    subset.push_back(node.by_row(i) ? gather_rows(inputs[i], rows) : inputs[i]);
  return subset;
}

}  // namespace h3
