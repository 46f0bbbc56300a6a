// The modulation rows of the packed rows: exact copies. RFC row adaln_row_gather, the provider's
// index_select. Backward: every table row gets R(row sum of its rows' gradients)
// (kernels/numerics/row_sum.h), 0 where it has none.
//
// Errors: a tag outside 0..2, a timestep index outside 0..U-1, an index outside the table, wrong dtype or
// shape.
#pragma once

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "kernels/table_part.h"

namespace h3::kernels {

// timestep_indices (S), tags (S) -> index (S) = 3 * timestep index + tag, all i64; U = timesteps.
void adaln_index(const Tensor& timestep_indices, const Tensor& tags, std::int64_t timesteps, Tensor& index);

// Part of a table (R, parts * C) of any float type, index (S) i64 in [0, R) -> y (S, C) of the same type.
void adaln_row_gather(const TablePart& part, const Tensor& index, Tensor& y);

// dy (S, C), index (S) -> dpart, every row of it written.
void adaln_row_gather_backward(const Tensor& dy, const Tensor& index, TablePart dpart);

namespace cuda {

// The same on Hopper, bit for bit; operands on the GPU, refused before the launch when they do not fit.
// `workspace` is fp32 with at least index.runs() * C elements.
void adaln_row_gather(const TablePart& part, const h3::cuda::RowIndex& index, Tensor& y, Stream stream);
void adaln_row_gather_backward(const Tensor& dy, const h3::cuda::RowIndex& index, TablePart dpart,
                               Tensor& workspace, Stream stream);

}  // namespace cuda

}  // namespace h3::kernels
