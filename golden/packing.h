// Boundary packing: the rows of the three modalities at their places in the packed sequence, and back out.
//   Exact copies. Every packed row is covered exactly once, otherwise it is an error.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

struct ModalityRows {
  Tensor rows;     // (n, C) FP32
  Tensor indices;  // (n) int64: their packed rows
};

Tensor pack_rows(const std::vector<ModalityRows>& modalities);    // (S, C), S = all rows together
Tensor select_rows(const Tensor& packed, const Tensor& indices);  // (n, C)

// The gradient of a modality's rows is select_rows(gradient, indices). That of selected rows lies at their
// places among `rows` packed ones, zero elsewhere, added where a row was selected more than once.
Tensor select_rows_backward(const Tensor& gradient, const Tensor& indices, std::int64_t rows);

}  // namespace h3::golden
