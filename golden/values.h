// What every golden node does with its operands: check their shapes, spread rows over threads, sum over rows.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "golden/table_part.h"
#include "model/parallel.h"

namespace h3::golden {

inline void require_shape(std::string_view node, std::string_view name, const Tensor& tensor,
                          const Shape& expected) {
  require(tensor.shape() == expected, "golden {}: {} is {}, expected {}", node, name,
          to_string(tensor.shape()), to_string(expected));
}

inline void check_part(std::string_view node, std::string_view name, const TablePart& part,
                       std::int64_t cols) {
  require(part.part >= 0 && part.table.cols() % cols == 0 && (part.part + 1) * cols <= part.table.cols(),
          "golden {}: {} is part {} of a table {}, expected parts of {} columns", node, name, part.part,
          to_string(part.table.shape()), cols);
}

// The table row of every packed row: (S) int64 within [0, table_rows).
inline std::span<const std::int64_t> checked_index(std::string_view node, const Tensor& index,
                                                   std::int64_t rows, std::int64_t table_rows) {
  require_shape(node, "index", index, {rows});
  const auto values = index.values<std::int64_t>();
  for (std::int64_t s = 0; s < rows; ++s)
    require(values[s] >= 0 && values[s] < table_rows, "golden {}: row {} has index {}, expected 0..{}", node,
            s, values[s], table_rows - 1);
  return values;
}

// body(row) for every row, in blocks, so that a short row does not cost a hand-over between threads.
template <class Body>
void for_each_row(std::int64_t rows, const Body& body) {
  constexpr std::int64_t kBlock = 16;
  parallel_for_each((rows + kBlock - 1) / kBlock, [&](std::int64_t block) {
    for (std::int64_t row = block * kBlock; row < std::min(rows, (block + 1) * kBlock); ++row) body(row);
  });
}

// sums[e, c] = sum over the rows s with index[s] = e, ascending, of term(s, c), in FP64; zero where there is
// no such row. Stored as `border`.
template <class Term>
Tensor sums_by_index(DType border, std::span<const std::int64_t> index, std::int64_t table_rows,
                     std::int64_t cols, const Term& term) {
  Tensor sums(border, {table_rows, cols});
  const Store out(sums);
  constexpr std::int64_t kBlock = 64;  // columns of a work item
  parallel_for(0, cols, kBlock, [&](std::int64_t first, std::int64_t last) {
    std::vector<double> sum(std::size_t(table_rows * kBlock), 0);
    for (std::size_t s = 0; s < index.size(); ++s)
      for (std::int64_t c = first; c < last; ++c)
        sum[std::size_t(index[s] * kBlock + c - first)] += term(std::int64_t(s), c);
    for (std::int64_t row = 0; row < table_rows; ++row)
      for (std::int64_t c = first; c < last; ++c)
        out.set(row * cols + c, sum[std::size_t(row * kBlock + c - first)]);
  });
  return sums;
}

// The same over all rows: (C).
template <class Term>
Tensor sums_over_rows(DType border, std::int64_t rows, std::int64_t cols, const Term& term) {
  const std::vector<std::int64_t> one_row(std::size_t(rows), 0);
  return sums_by_index(border, one_row, 1, cols, term).reshaped({cols});
}

}  // namespace h3::golden
