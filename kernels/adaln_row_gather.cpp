#include "kernels/adaln_row_gather.h"

#include <cstring>

#include "kernels/checks.h"
#include "kernels/numerics/row_sum.h"
#include "kernels/numerics/rows.h"
#include "model/config.h"
#include "model/parallel.h"

namespace h3::kernels {

void adaln_index(const Tensor& timestep_indices, const Tensor& tags, std::int64_t timesteps, Tensor& index) {
  constexpr const char* kRow = "adaln_index";
  require_dtype(kRow, "timestep_indices", timestep_indices, {DType::i64});
  const std::int64_t rows = timestep_indices.elements();
  const auto steps = checked_index(kRow, "timestep_indices", timestep_indices, rows, timesteps);
  const auto tag = checked_index(kRow, "tags", tags, rows, kTags);
  require_tensor(kRow, "index", index, DType::i64, {rows});
  for (std::int64_t s = 0; s < rows; ++s) index.data<std::int64_t>()[s] = kTags * steps[s] + tag[s];
}

void adaln_row_gather(const TablePart& part, const Tensor& index, Tensor& y) {
  constexpr const char* kRow = "adaln_row_gather";
  require_dtype(kRow, "y", y, {DType::bf16, DType::fp16, DType::fp32});
  require_rank(kRow, "y", y, 2);
  const std::int64_t rows = y.shape()[0], cols = y.cols();
  require_part(kRow, "table", part, y.dtype(), cols);
  const auto chosen = checked_index(kRow, "index", index, rows, part.table.rows());
  const std::size_t size = size_of(y.dtype());
  parallel_for(0, rows, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      std::memcpy(y.bytes() + std::size_t(s * cols) * size,
                  part.table.bytes() + std::size_t(part.offset(chosen[s], cols)) * size,
                  std::size_t(cols) * size);
    }
  });
}

void adaln_row_gather_backward(const Tensor& dy, const Tensor& index, TablePart dpart) {
  constexpr const char* kRow = "adaln_row_gather_backward";
  require_dtype(kRow, "dy", dy, {DType::bf16, DType::fp16, DType::fp32});
  require_rank(kRow, "dy", dy, 2);
  const std::int64_t cols = dy.cols();
  require_part(kRow, "dpart", dpart, dy.dtype(), cols);
  const std::int64_t table_rows = dpart.table.rows();
  const auto chosen = checked_index(kRow, "index", index, dy.shape()[0], table_rows);
  numerics::sum_rows(
      numerics::segments_of(chosen, table_rows), cols,
      [&](std::int64_t s, std::int64_t first, std::int64_t count, float* terms) {
        numerics::widen(dy, s * cols + first, count, terms);
      },
      [&](std::int64_t e, std::int64_t first, std::int64_t count, const float* sum) {
        numerics::narrow(sum, dpart.offset(e, cols) + first, count, dpart.table);
      });
}

}  // namespace h3::kernels
