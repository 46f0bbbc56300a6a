// Launching over rows: a block of threads per packed row, V elements a thread at a time.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"

namespace h3::cuda {

inline constexpr int kRowThreads = 256;

// Grids are indexed by row in x: up to 2^31 - 1 rows.
inline unsigned row_grid(const char* row, std::int64_t rows) {
  require(rows > 0 && rows < (std::int64_t(1) << 31), "{}: {} rows, expected 1..2^31-1", row, rows);
  return unsigned(rows);
}

// run(width) with the widest vector whose elements divide every extent: 16 bytes of a 2-byte type, else one
// by one.
template <class Run>
void by_width(std::int64_t divisible, const Run& run) {
  if (divisible % 8 == 0)
    run(std::integral_constant<int, 8>{});
  else
    run(std::integral_constant<int, 1>{});
}

}  // namespace h3::cuda
