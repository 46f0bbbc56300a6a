#include "golden/adaln_row_gather.h"

#include <algorithm>

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
  Tensor y(DType::fp32, {rows, cols});
  for (std::int64_t s = 0; s < rows; ++s)
    std::copy_n(table.data<float>() + chosen[s] * cols, cols, y.data<float>() + s * cols);
  return y;
}

}  // namespace h3::golden
