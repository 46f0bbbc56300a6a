// One part (shift, scale or gate) of a modulation table: columns [part * C, (part + 1) * C) of a table (R,
// parts * C). A table that holds only the part itself is part 0.
#pragma once

#include "golden/reals.h"

namespace h3::golden {

struct TablePart {
  Tensor table;  // FP32
  std::int64_t part = 0;

  // The part's `cols` values in table row `row`; indices were checked by the node.
  Reals row(std::int64_t row, std::int64_t cols) const {
    return Reals(table) + (row * table.cols() + part * cols);
  }
};

// The gradient of a whole table (R, parts * C) from those of some of its parts, (R, C) each: zero in the
// others.
Tensor table_gradient(const Shape& table, std::initializer_list<TablePart> parts);

}  // namespace h3::golden
