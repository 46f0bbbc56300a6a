// Descriptions of matrices for the copy engine of Hopper.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace h3::cuda {

// A row-major BF16 matrix (rows, columns), columns a multiple of 8, read in boxes of box_rows x 64 words that
// land in shared memory with the 128-byte swizzle. Elements outside of the matrix are read as zeros. Host
// only; throws Error.
CUtensorMap tensor_map(const void* matrix, std::int64_t rows, std::int64_t columns, int box_rows);

// A BF16 tensor (rows, heads, 128), read in boxes of box_rows rows of one head that land as two tiles of 64
// words by box_rows, one behind the other. Coordinates: 0, row, 0, head.
CUtensorMap heads_map(const void* tensor, std::int64_t rows, std::int64_t heads, int box_rows);

}  // namespace h3::cuda
