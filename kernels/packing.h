// Rows of the three modalities to their places in the packed sequence, and rows selected from it. Boundary
// packing.
//
// Arithmetic: bf16 rows are copied; fp32 rows (video, audio) are rounded once to BF16. Selection copies. In
// the model every packed row is covered exactly once, and here anything else is an error.
//
// Backward: the rows of each modality take their rows of the gradient, widened exactly where they are fp32;
// what was selected gives its gradient to its packed row (twice selected: the row sum,
// kernels/numerics/row_sum.h), the others get 0.
//
// Errors: an index outside the sequence, a packed row given twice or not at all, wrong dtype or shape.
#pragma once

#include <vector>

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::kernels {

struct ModalityRows {
  Tensor rows;     // (n, C) bf16 or fp32
  Tensor indices;  // (n) i64: their packed rows
};

// -> packed (S, C) bf16.
void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed);

// What pack_rows asks of its modalities, as an error: dtypes, shapes, and every one of `length` rows covered
// once.
void require_every_row_once(const std::vector<ModalityRows>& modalities, std::int64_t length,
                            std::int64_t cols);

// dpacked (S, C) bf16 -> the rows of every modality, written as gradients.
void pack_rows_backward(const Tensor& dpacked, std::vector<ModalityRows>& dmodalities);

// packed (S, C) of any float type, indices (n) i64 -> rows (n, C) of the same type.
void select_rows(const Tensor& packed, const Tensor& indices, Tensor& rows);
void select_rows_backward(const Tensor& drows, const Tensor& indices, Tensor& dpacked);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit. The
// indices of pack_rows and its backward stay on the CPU, and both wait for the stream. `workspace` as for
// adaln_row_gather_backward.
void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed, Stream stream);
void pack_rows_backward(const Tensor& dpacked, std::vector<ModalityRows>& dmodalities, Stream stream);
void select_rows(const Tensor& packed, const h3::cuda::RowIndex& indices, Tensor& rows, Stream stream);
void select_rows_backward(const Tensor& drows, const h3::cuda::RowIndex& indices, Tensor& dpacked,
                          Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
