#include "golden/adaln_row_gather.h"

#include <cstring>

#include "golden/values.h"

namespace h3::golden {

Tensor adaln_index(const Tensor& timestep_indices, const Tensor& tags, std::int64_t timesteps) {
  const std::int64_t rows = timestep_indices.elements();
  const auto step = checked_index("adaln_index timestep", timestep_indices, rows, timesteps);
  const auto tag = checked_index("adaln_index tag", tags, rows, 3);
  Tensor index(DType::i64, {rows});
  for (std::int64_t s = 0; s < rows; ++s) index.data<std::int64_t>()[s] = 3 * step[s] + tag[s];
  return index;
}

Tensor adaln_row_gather(const Tensor& table, const Tensor& index) {
  const std::int64_t rows = index.elements(), cols = table.cols();
  const auto chosen = checked_index("adaln_row_gather", index, rows, table.rows());
  Tensor y(table.dtype(), {rows, cols});
  const std::size_t row_bytes = std::size_t(cols) * size_of(table.dtype());
  for (std::int64_t s = 0; s < rows; ++s)
    std::memcpy(y.bytes() + std::size_t(s) * row_bytes, table.bytes() + std::size_t(chosen[s]) * row_bytes,
                row_bytes);
  return y;
}

Tensor adaln_row_gather_backward(const Tensor& gradient, const Tensor& index, std::int64_t table_rows) {
  const std::int64_t cols = gradient.cols();
  const auto chosen = checked_index("adaln_row_gather_backward", index, gradient.rows(), table_rows);
  const Tensor gradients = widened(gradient);
  const Reals dy(gradients);
  return sums_by_index(border_of(gradient), chosen, table_rows, cols,
                       [&](std::int64_t s, std::int64_t c) { return dy[s * cols + c]; });
}

}  // namespace h3::golden
