// Evaluating a node on some of its rows: the batch-row check and the stored goldens both need it.
#pragma once

#include <span>
#include <vector>

#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

Tensor gather_rows(const Tensor& tensor, std::span<const std::int64_t> rows);

// The inputs with which the node computes just these rows: per-row inputs gathered, tables and keys whole.
std::vector<Tensor> inputs_of_rows(const Node& node, std::span<const Tensor> inputs,
                                   std::span<const std::int64_t> rows);

}  // namespace h3
