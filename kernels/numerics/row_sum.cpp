#include "kernels/numerics/row_sum.h"

#include <algorithm>
#include <numeric>

namespace h3::numerics {

Segments segments_of(std::span<const std::int64_t> index, std::int64_t count) {
  Segments segments{std::vector<std::int64_t>(index.size()),
                    std::vector<std::int64_t>(std::size_t(count) + 1)};
  for (const std::int64_t segment : index) ++segments.first[segment + 1];
  std::partial_sum(segments.first.begin(), segments.first.end(), segments.first.begin());
  std::vector<std::int64_t> next = segments.first;
  for (std::size_t row = 0; row < index.size(); ++row) segments.rows[next[index[row]]++] = std::int64_t(row);
  return segments;
}

Segments one_segment(std::int64_t rows) {
  Segments segments{std::vector<std::int64_t>(static_cast<std::size_t>(rows)), {0, rows}};
  std::iota(segments.rows.begin(), segments.rows.end(), 0);
  return segments;
}

void RowSum::add(std::size_t at, const float* terms) {
  if (at == levels_.size()) levels_.push_back({std::vector<float>(cols_)});
  Level& level = levels_[at];
  if (level.terms == 0)
    std::copy_n(terms, cols_, level.sum.begin());
  else
    for (std::size_t c = 0; c < cols_; ++c) level.sum[c] += terms[c];
  if (++level.terms == kFanIn) pass_on(at);
}

// The sum of a level becomes a term of the next.
void RowSum::pass_on(std::size_t at) {
  const std::vector<float> sum = levels_[at].sum;
  levels_[at].terms = 0;
  add(at + 1, sum.data());
}

void RowSum::end_run() {
  if (!levels_.empty() && levels_[0].terms > 0) pass_on(0);
}

void RowSum::finish(float* sum) {
  std::fill_n(sum, cols_, 0.0f);
  for (std::size_t at = 0; at < levels_.size(); ++at) {
    if (levels_[at].terms == 0) continue;
    const bool highest = std::all_of(levels_.begin() + std::ptrdiff_t(at) + 1, levels_.end(),
                                     [](const Level& level) { return level.terms == 0; });
    if (!highest) {
      pass_on(at);
      continue;
    }
    std::copy_n(levels_[at].sum.begin(), cols_, sum);
    levels_[at].terms = 0;
  }
}

}  // namespace h3::numerics
