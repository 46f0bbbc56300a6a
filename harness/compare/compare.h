// Two tensors side by side: which bits differ, by how much, and where. compare() measures and never decides;
// a Bound decides. The result doesn't depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/json.h"
#include "model/tensor.h"

namespace h3 {

// Indices are flat, row-major; -1 is "none". The expected tensor may be wider than the actual one (a golden
// in FP32, an output in BF16): errors are then measured against the wide value, words and ulps against its
// rounding.
struct ComparisonCounts {
  std::int64_t differing = 0;         // words that are not the same bits
  std::int64_t first_differing = -1;  // ... the first of them
  std::int64_t differing_values = 0;  // words whose numbers differ: -0 equals +0, NaN equals NaN
  std::int64_t negative_zero = 0;     // words that differ only in the sign of a zero
  std::int64_t unwritten = 0;         // actual words that still hold the poison of a new tensor (float types)
  std::int64_t first_unwritten = -1;

  std::int64_t expected_nan = 0, expected_inf = 0, actual_nan = 0, actual_inf = 0;
  std::int64_t non_finite_mismatches = 0;  // NaN or Inf on one side only, or infinities of different sign
  std::int64_t first_non_finite_mismatch = -1;

  // Over the elements that are finite on both sides:
  double expected_absmax = 0;
  double max_abs = 0;  // |actual - expected|
  std::int64_t max_abs_index = -1;
  std::uint64_t max_ulp = 0;  // steps between neighbouring words of the type; -0 and +0 are no step apart
  std::int64_t max_ulp_index = -1;
};

struct Comparison : ComparisonCounts {
  // Not empty: the two cannot be compared, and the rest is meaningless (shapes or types do not fit, nothing
  // to compare).
  std::string mismatch = {};
  DType dtype = DType::fp32;  // of the actual tensor
  Shape shape = {};
  std::int64_t elements = 0;

  std::int64_t first_row = -1;  // of the first differing word, counting the innermost extent as columns
  // Over the elements that are finite on both sides:
  double expected_l2 = 0, actual_l2 = 0;  // Euclidean norms
  double relative_l2 = 0;                 // |actual - expected|_2 / |expected|_2; 0 for 0/0, Inf for x/0
  double max_abs_over_absmax = 0;         // max_abs / expected_absmax, likewise
  double cosine = 1;  // 1 when both norms are 0, 0 when one is; blind to scale, never a bound

  bool same_bits() const { return mismatch.empty() && differing == 0 && unwritten == 0; }
};

Comparison compare(const Tensor& expected, const Tensor& actual);

// Several lines for a person: how many differ, the worst place with expected and got, its neighbours.
std::string describe(const Comparison& comparison, const Tensor& expected, const Tensor& actual);

nlohmann::ordered_json to_json(const Comparison& comparison);  // numbers JSON cannot hold become "nan", "inf"

// Upper limits, each inclusive. At least one is needed.
struct Bound {
  std::optional<double> relative_l2 = {};
  std::optional<double> max_abs = {};
  std::optional<double> max_abs_over_absmax = {};
  std::optional<std::uint64_t> max_ulp = {};
};

struct Judgement {
  bool accepted = false;
  std::string metric;  // the limit that decided: the one exceeded most, or, when accepted, the one nearest
  double limit = 0, measured = 0;
  std::string reason;  // one line, accepted or not
};

// Before any limit counts: the tensors are comparable, every element was written, NaN and Inf are where the
// golden has them, the golden has no NaN, and it has energy (a golden of zeros accepts any relative measure
// of nothing).
Judgement judge(const Bound& bound, const Comparison& comparison);

}  // namespace h3
