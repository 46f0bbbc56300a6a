// What every golden node does with its operands: read them as FP32 words, check their shapes, spread rows
// over threads.
#pragma once

#include <algorithm>
#include <string_view>

#include "golden/table_part.h"
#include "model/parallel.h"

namespace h3::golden {

// The same tensor when it holds FP32, else an exactly widened copy (BF16, FP16).
inline Tensor fp32(const Tensor& tensor) {
  return tensor.dtype() == DType::fp32 ? tensor : tensor.to(DType::fp32);
}

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

}  // namespace h3::golden
