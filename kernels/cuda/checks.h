// Checks that strict kernels share beyond those of kernels/cuda/device.h.
#pragma once

#include "kernels/cuda/row_index.h"
#include "kernels/table_part.h"

namespace h3::kernels::cuda {

// A part of `cols` columns of a table on the GPU that has every row the index was checked against.
void require_part(const char* row, const char* argument, const TablePart& part, DType dtype,
                  std::int64_t cols, const h3::cuda::RowIndex& index);

// The same part of the gradient of that table: as many rows.
void require_part_gradient(const char* row, const char* argument, const TablePart& part, DType dtype,
                           std::int64_t cols, const h3::cuda::RowIndex& index);

}  // namespace h3::kernels::cuda
