// Evaluating a node on some of its rows or columns: batch-row checks, stored goldens and reproducers need it.
#pragma once

#include <span>
#include <vector>

#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> rows);
// Of the innermost extent: (..., cols) -> (..., columns.size()).
Tensor gather_columns(const Tensor& tensor, std::span<const std::int64_t> columns);

// The inputs with which the node computes just these rows: per-row inputs gathered, tables and keys whole.
std::vector<Tensor> inputs_of_rows(const Node& node, std::span<const Tensor> inputs,
                                   std::span<const std::int64_t> rows);

// The output rows that these input rows make, where each makes `per_input` (a row of temb: one per tag).
std::vector<std::int64_t> output_rows(std::span<const std::int64_t> rows, std::int64_t per_input);

struct RowBatch {
  const char* what;
  std::vector<std::int64_t> rows;
};

// Three of `rows` rows alone, then the same three inside another sequence at other places: none of their
// bytes may change.
std::vector<RowBatch> row_batches(std::int64_t rows);

}  // namespace h3
