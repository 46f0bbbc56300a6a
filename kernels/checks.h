// What every row checks before it works: dtype, shape and indices of its operands, one line naming row and
// argument.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/table_part.h"
#include "model/tensor.h"

namespace h3::kernels {

// `tensor` has one of `dtypes` and at least one element.
void require_dtype(std::string_view row, std::string_view argument, const Tensor& tensor,
                   std::initializer_list<DType> dtypes);

// `tensor` has exactly this dtype and shape, which has at least one element.
void require_tensor(std::string_view row, std::string_view argument, const Tensor& tensor, DType dtype,
                    const Shape& shape);

void require_rank(std::string_view row, std::string_view argument, const Tensor& tensor, std::size_t rank);

// A part of `cols` columns of a table of this dtype.
void require_part(std::string_view row, std::string_view argument, const TablePart& part, DType dtype,
                  std::int64_t cols);

// The same part of the gradient of a table with `table_rows` rows.
void require_part_gradient(std::string_view row, std::string_view argument, const TablePart& part,
                           DType dtype, std::int64_t cols, std::int64_t table_rows);

// (rows) i64, every value in [0, limit).
std::span<const std::int64_t> checked_index(std::string_view row, std::string_view argument,
                                            const Tensor& index, std::int64_t rows, std::int64_t limit);

}  // namespace h3::kernels
