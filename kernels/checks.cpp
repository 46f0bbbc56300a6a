#include "kernels/checks.h"

#include <algorithm>
#include <string>

namespace h3::kernels {
namespace {

void require_elements(std::string_view row, std::string_view argument, const Tensor& tensor) {
  require(!tensor.empty() && !tensor.shape().empty() && tensor.elements() > 0,
          "{}: {} is empty ({}), expected at least one element", row, argument, to_string(tensor.shape()));
}

}  // namespace

void require_dtype(std::string_view row, std::string_view argument, const Tensor& tensor,
                   std::initializer_list<DType> dtypes) {
  require_elements(row, argument, tensor);
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype()) != dtypes.end()) return;
  std::string expected;
  for (const DType dtype : dtypes) expected += (expected.empty() ? "" : " or ") + std::string(name_of(dtype));
  fail("{}: {} is {}, expected {}", row, argument, name_of(tensor.dtype()), expected);
}

void require_tensor(std::string_view row, std::string_view argument, const Tensor& tensor, DType dtype,
                    const Shape& shape) {
  require_dtype(row, argument, tensor, {dtype});
  require(tensor.shape() == shape, "{}: {} is {}, expected {}", row, argument, to_string(tensor.shape()),
          to_string(shape));
}

void require_rank(std::string_view row, std::string_view argument, const Tensor& tensor, std::size_t rank) {
  require(tensor.shape().size() == rank, "{}: {} is {}, expected {} extents", row, argument,
          to_string(tensor.shape()), rank);
}

void require_part(std::string_view row, std::string_view argument, const TablePart& part, DType dtype,
                  std::int64_t cols) {
  require_dtype(row, argument, part.table, {dtype});
  require_rank(row, argument, part.table, 2);
  require(part.table.cols() % cols == 0 && part.part >= 0 && part.part < part.table.cols() / cols,
          "{}: {} is part {} of a table {}, expected a part of {} columns", row, argument, part.part,
          to_string(part.table.shape()), cols);
}

void require_part_gradient(std::string_view row, std::string_view argument, const TablePart& part,
                           DType dtype, std::int64_t cols, std::int64_t table_rows) {
  require_part(row, argument, part, dtype, cols);
  require(part.table.rows() == table_rows, "{}: {} has {} table rows, expected {}", row, argument,
          part.table.rows(), table_rows);
}

std::span<const std::int64_t> checked_index(std::string_view row, std::string_view argument,
                                            const Tensor& index, std::int64_t rows, std::int64_t limit) {
  require_tensor(row, argument, index, DType::i64, {rows});
  const auto values = index.values<std::int64_t>();
  for (std::int64_t s = 0; s < rows; ++s) {
    require(values[s] >= 0 && values[s] < limit, "{}: {}[{}] is {}, expected 0..{}", row, argument, s,
            values[s], limit - 1);
  }
  return values;
}

}  // namespace h3::kernels
