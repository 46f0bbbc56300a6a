// Sums over rows in one fixed order: the gradients of norm weights, biases and modulation tables.
//
// Fan-in 128: the terms of a run of 128 consecutive rows are added in groups of eight, each a tree,
// ((0+1)+(2+3))+((4+5)+(6+7)), the groups one after the other, starting from the first; the sums of 128
// consecutive runs likewise, and so on until one is left. FP32, plain adds; terms that the last group lacks
// are left out; no rows give +0. The order depends on the number of rows alone, and every column is its own
// sum.
//
// Where the rows belong to segments (a table row has its own rows), every segment is a sum of its own, over
// its rows in the order of the sequence. A sum over all rows of such a sequence takes them segment after
// segment and ends a run where a segment ends, so that one walk over the rows serves both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/parallel.h"

namespace h3::numerics {

inline constexpr std::int64_t kFanIn = 128, kGroup = 8;

// The rows of a sequence by segment, each segment in the order of the sequence.
struct Segments {
  std::vector<std::int64_t> rows;   // those of segment 0, then those of segment 1, ...
  std::vector<std::int64_t> first;  // where each begins in `rows`, and the end

  std::int64_t count() const { return std::int64_t(first.size()) - 1; }
  std::span<const std::int64_t> of(std::int64_t segment) const {
    return std::span(rows).subspan(std::size_t(first[segment]),
                                   std::size_t(first[segment + 1] - first[segment]));
  }
};
Segments segments_of(std::span<const std::int64_t> index, std::int64_t count);  // values in [0, count)
Segments one_segment(std::int64_t rows);

// The sum of rows that come one after the other.
class RowSum {
 public:
  explicit RowSum(std::int64_t cols) : cols_(std::size_t(cols)) {}
  void add(const float* terms) { add(0, terms); }
  void end_run();           // the next row begins a run
  void finish(float* sum);  // the sum of all rows so far; the next one begins another sum

 private:
  struct Level {
    std::vector<float> sum, group;  // the terms of the group that is being filled
    std::int64_t terms = 0;
  };
  void add(std::size_t level, const float* terms);
  void add_group(Level& level);
  std::vector<float> taken(Level& level);  // its sum; the level is empty again
  void pass_on(std::size_t level);

  std::size_t cols_;
  std::vector<Level> levels_;
};

// One sum for every segment. terms(row, first, count, out) gives the terms of columns [first, first + count)
// of a row, done(segment, first, count, sum) takes their sums.
template <class Terms, class Done>
void sum_rows(const Segments& segments, std::int64_t cols, const Terms& terms, const Done& done) {
  parallel_for(0, cols, 256, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> values(static_cast<std::size_t>(last - first));
    RowSum sum(last - first);
    for (std::int64_t segment = 0; segment < segments.count(); ++segment) {
      for (const std::int64_t row : segments.of(segment)) {
        terms(row, first, last - first, values.data());
        sum.add(values.data());
      }
      sum.finish(values.data());
      done(segment, first, last - first, values.data());
    }
  });
}

}  // namespace h3::numerics
