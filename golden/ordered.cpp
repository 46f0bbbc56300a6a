#include "golden/ordered.h"

#include <cstring>

// The loader picks the widest registers the machine has; every clone does the same roundings. Sanitizers are
// not ready when it picks.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define H3_WIDEST_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define H3_WIDEST_VECTORS
#endif

namespace h3::golden {
namespace {
// Half a row of the tile: GCC 12 takes wider vectors apart through memory where the machine has none.
constexpr std::int64_t kHalf = kTileCols / 2;
typedef double Lanes __attribute__((vector_size(kHalf * sizeof(double))));
}  // namespace

H3_WIDEST_VECTORS
void accumulate_tile(const double* x, const double* w, std::int64_t count, double* sums) {
  Lanes sum[kTileRows][2];
  std::memcpy(sum, sums, sizeof(sum));
  for (std::int64_t k = 0; k < count; ++k) {
    Lanes left, right;
    std::memcpy(&left, w + k * kTileCols, sizeof(left));
    std::memcpy(&right, w + k * kTileCols + kHalf, sizeof(right));
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      sum[i][0] += left * x[k * kTileRows + i];
      sum[i][1] += right * x[k * kTileRows + i];
    }
  }
  std::memcpy(sums, sum, sizeof(sum));
}

}  // namespace h3::golden
