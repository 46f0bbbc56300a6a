#include "kernels/numerics/row_sum.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

namespace {

constexpr float kNothing = -0.0f;  // x + -0 is x for every x: what stands for a term that is not there

}  // namespace

void RowSum::add(std::size_t at, const float* terms) {
  if (at == levels_.size())
    levels_.push_back({std::vector<float>(cols_, kNothing), std::vector<float>(kGroup * cols_, kNothing)});
  Level& level = levels_[at];
  std::copy_n(terms, cols_, level.group.begin() + std::ptrdiff_t(std::size_t(level.terms % kGroup) * cols_));
  if (++level.terms % kGroup == 0) add_group(level);
  if (level.terms == kFanIn) pass_on(at);
}

void RowSum::add_group(Level& level) {
  const auto term = [&](std::size_t i) { return level.group.data() + i * cols_; };
  const float *t0 = term(0), *t1 = term(1), *t2 = term(2), *t3 = term(3), *t4 = term(4), *t5 = term(5),
              *t6 = term(6), *t7 = term(7);
  for (std::size_t c = 0; c < cols_; ++c)
    level.sum[c] += ((t0[c] + t1[c]) + (t2[c] + t3[c])) + ((t4[c] + t5[c]) + (t6[c] + t7[c]));
  std::ranges::fill(level.group, kNothing);
}

std::vector<float> RowSum::taken(Level& level) {
  if (level.terms % kGroup != 0) add_group(level);
  level.terms = 0;
  return std::exchange(level.sum, std::vector<float>(cols_, kNothing));
}

// The sum of a level becomes a term of the next.
void RowSum::pass_on(std::size_t at) {
  const std::vector<float> sum = taken(levels_[at]);
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
    std::ranges::copy(taken(levels_[at]), sum);
  }
}

}  // namespace h3::numerics
