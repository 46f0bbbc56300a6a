// Rows of the three modalities to their places in the packed sequence, and rows selected from it. Boundary
// packing.
//
// Arithmetic: bf16 rows are copied; fp32 rows (video, audio) are rounded once to BF16. Selection copies. In
// the model every packed row is covered exactly once, and here anything else is an error.
//
// Errors: an index outside the sequence, a packed row given twice or not at all, wrong dtype or shape.
#pragma once

#include <vector>

#include "model/tensor.h"

namespace h3::kernels {

struct ModalityRows {
  Tensor rows;     // (n, C) bf16 or fp32
  Tensor indices;  // (n) i64: their packed rows
};

// -> packed (S, C) bf16.
void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed);

// packed (S, C) of any float type, indices (n) i64 -> rows (n, C) of the same type.
void select_rows(const Tensor& packed, const Tensor& indices, Tensor& rows);

}  // namespace h3::kernels
