// One part (shift, scale or gate) of a modulation table: columns [part * C, (part + 1) * C) of a table (R,
// parts * C). A table that holds only the part itself is part 0.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

struct TablePart {
  Tensor table;  // FP32
  std::int64_t part = 0;

  // The part's `cols` values in table row `row`; indices were checked by the node.
  const float* row(std::int64_t row, std::int64_t cols) const {
    return table.data<float>() + row * table.cols() + part * cols;
  }
};

}  // namespace h3::golden
