// One part (shift, scale or gate) of a modulation table (R, parts * C): columns [part * C, (part + 1) * C). A
// table that holds nothing else is its own part 0. The parts of a block's table come in the order of
// Modulation (model/config.h).
#pragma once

#include "model/tensor.h"

namespace h3::kernels {

struct TablePart {
  Tensor table;
  std::int64_t part = 0;

  // Index of the first element of table row `row`.
  std::int64_t offset(std::int64_t row, std::int64_t cols) const { return row * table.cols() + part * cols; }
};

}  // namespace h3::kernels
