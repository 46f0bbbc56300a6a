#include "golden/table_part.h"

#include <algorithm>
#include <cstring>

namespace h3::golden {

Tensor table_gradient(const Shape& table, std::initializer_list<TablePart> parts) {
  Tensor whole(border_of(parts.begin()->table), table);
  std::memset(whole.bytes(), 0, whole.size_bytes());
  const Store out(whole);
  for (const auto& [gradient, part] : parts) {
    const std::int64_t rows = gradient.rows(), cols = gradient.cols();
    require(
        whole.rows() == rows && whole.cols() % cols == 0 && part >= 0 && (part + 1) * cols <= whole.cols(),
        "golden table_gradient: {} as part {} of a table {}, expected its rows and one of its parts",
        to_string(gradient.shape()), part, to_string(table));
    const Reals values(gradient);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t c = 0; c < cols; ++c)
        out.set(row * whole.cols() + part * cols + c, values[row * cols + c]);
  }
  return whole;
}

}  // namespace h3::golden
