#include "golden/ordered.h"

#include <cstring>

// The loader picks the widest registers the machine has; every clone does the same roundings.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define H3_WIDEST_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define H3_WIDEST_VECTORS
#endif

namespace h3::golden {
namespace {
typedef double Lanes __attribute__((vector_size(kTileCols * sizeof(double))));
}

H3_WIDEST_VECTORS
void accumulate_tile(const double* x, const double* w, std::int64_t count, double* sums) {
  Lanes sum[kTileRows];
  std::memcpy(sum, sums, sizeof(sum));
  for (std::int64_t k = 0; k < count; ++k) {
    Lanes column;
    std::memcpy(&column, w + k * kTileCols, sizeof(column));
    for (std::int64_t i = 0; i < kTileRows; ++i) sum[i] += column * x[k * kTileRows + i];
  }
  std::memcpy(sums, sum, sizeof(sum));
}

}  // namespace h3::golden
