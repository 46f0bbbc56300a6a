#include "harness/execution/row_subset.h"

#include <algorithm>
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

Tensor gather_columns(const Tensor& tensor, std::span<const std::int64_t> columns) {
  Shape shape = tensor.shape();
  shape.back() = std::int64_t(columns.size());
  const std::size_t word = size_of(tensor.dtype());
  Tensor gathered(tensor.dtype(), shape);
  for (std::int64_t r = 0; r < tensor.rows(); ++r)
    for (std::size_t i = 0; i < columns.size(); ++i) {
      require(columns[i] >= 0 && columns[i] < tensor.cols(), "gather_columns: column {} of {}", columns[i],
              tensor.cols());
      std::memcpy(gathered.bytes() + (std::size_t(r) * columns.size() + i) * word,
                  tensor.bytes() + std::size_t(r * tensor.cols() + columns[i]) * word, word);
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

std::vector<std::int64_t> output_rows(std::span<const std::int64_t> rows, std::int64_t per_input) {
  std::vector<std::int64_t> all;
  for (const auto row : rows)
    for (std::int64_t i = 0; i < per_input; ++i) all.push_back(row * per_input + i);
  return all;
}

std::vector<RowBatch> row_batches(std::int64_t rows) {
  std::vector<std::int64_t> targets = {0, rows / 2, rows - 1};
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  std::vector<RowBatch> batches;
  for (const auto row : targets) batches.push_back({"row alone", {row}});
  std::vector<std::int64_t> mixed;  // 17 rows: not a multiple of any tile, every target off its old place
  for (std::int64_t i = 0; i < 17; ++i) mixed.push_back((i * 37 + 5) % rows);
  for (std::size_t i = 0; i < targets.size(); ++i) mixed[3 + 5 * i] = targets[targets.size() - 1 - i];
  batches.push_back({"row inside another sequence", mixed});
  return batches;
}

}  // namespace h3
