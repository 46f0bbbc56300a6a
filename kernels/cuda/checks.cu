#include "kernels/cuda/checks.h"

#include "kernels/cuda/device.h"

namespace h3::kernels::cuda {

void require_part(const char* row, const char* argument, const TablePart& part, DType dtype, std::int64_t cols,
                  const h3::cuda::RowIndex& index) {
  h3::cuda::require_tensor(row, argument, part.table, dtype, part.table.shape());
  require(part.table.shape().size() == 2 && part.table.cols() % cols == 0 && part.part >= 0 &&
              part.part < part.table.cols() / cols,
          "{}: {} is part {} of a table {}, expected a part of {} columns", row, argument, part.part,
          to_string(part.table.shape()), cols);
  require(index.limit() <= part.table.rows(), "{}: index was checked against {} table rows, {} has {}", row,
          index.limit(), argument, part.table.rows());
}

void require_part_gradient(const char* row, const char* argument, const TablePart& part, DType dtype, std::int64_t cols,
                           const h3::cuda::RowIndex& index) {
  require_part(row, argument, part, dtype, cols, index);
  require(part.table.rows() == index.limit(), "{}: {} has {} table rows, expected {}", row, argument,
          part.table.rows(), index.limit());
}

}  // namespace h3::kernels::cuda
