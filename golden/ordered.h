// The inner loop of every ordered FP64 sum: a 4 x 8 tile of outputs, each one a chain of
// round(sum + round(x * w)) in ascending k. No FMA, no regrouping, so the vector width does not show in the
// bits.
#pragma once

#include <cstdint>

namespace h3::golden {

inline constexpr std::int64_t kTileRows = 4, kTileCols = 8;

// sums[i][j] += sum over k < count of x[k][i] * w[k][j], the operands packed tile by tile.
void accumulate_tile(const double* x, const double* w, std::int64_t count, double* sums);

}  // namespace h3::golden
