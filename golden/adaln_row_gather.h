// The modulation rows of the packed rows: exact copies (provider: index_select by 3 * timestep_index + tag).
#pragma once

#include "model/tensor.h"

namespace h3::golden {

// timestep_indices (S) in [0, timesteps), tags (S) in 0..2, both int64 -> table rows (S) int64.
Tensor adaln_index(const Tensor& timestep_indices, const Tensor& tags, std::int64_t timesteps);

// table (R, C) FP32, index (S) int64 in [0, R) -> (S, C).
Tensor adaln_row_gather(const Tensor& table, const Tensor& index);

// dtable[r] = sum over the rows s with index[s] = r, ascending, of dy[s]; zero for rows that nobody chose.
Tensor adaln_row_gather_backward(const Tensor& gradient, const Tensor& index, std::int64_t table_rows);

}  // namespace h3::golden
