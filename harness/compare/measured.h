// What measuring leaves of two tensors, and its smallest step: shared by the loops over memory (compare.cpp)
// and over a GPU's (compare_device.cu).
#pragma once

#include "harness/compare/compare.h"

#ifdef __CUDACC__
#define H3_ANYWHERE __host__ __device__
#else
#define H3_ANYWHERE
#endif

namespace h3 {

struct Measured : ComparisonCounts {
  double error2 = 0, expected2 = 0, actual2 = 0, product = 0;
};

// Not empty: why the two cannot be compared.
std::string mismatch_of(const Tensor& expected, const Tensor& actual);

// What was measured and all that follows from it and from the tensor's shape.
Comparison finished(const Measured& measured, const Tensor& actual);

// How the words of an element type are laid out: sign, then magnitude, larger magnitudes being larger words.
template <class WordType, WordType infinity>
struct WordFormat {
  using Word = WordType;
  static constexpr Word kInfinity = infinity, kPoison = Word(~Word(0)), kMagnitude = Word(kPoison >> 1);
  using Ulps = std::conditional_t<sizeof(Word) == 8, std::uint64_t, std::uint32_t>;

  H3_ANYWHERE static bool finite(Word word) { return (word & kMagnitude) < kInfinity; }
  H3_ANYWHERE static bool nan(Word word) { return (word & kMagnitude) > kInfinity; }
  H3_ANYWHERE static Ulps ulps_between(Word a, Word b) {  // of two finite ones
    const Ulps x = a & kMagnitude, y = b & kMagnitude;
    const bool same_sign = ((a ^ b) & Word(~kMagnitude)) == 0;
    return same_sign ? (x > y ? x - y : y - x) : x + y;
  }
};

// The earlier of two places, of which -1 is none.
H3_ANYWHERE inline void keep_first(std::int64_t& first, std::int64_t at) {
  if (std::uint64_t(at) < std::uint64_t(first)) first = at;
}

// The larger value and where it is; of equal ones the first place.
template <class Value>
H3_ANYWHERE inline void keep_largest(Value& largest, std::int64_t& place, Value value, std::int64_t at) {
  if (value > largest)
    largest = value, place = at;
  else if (value == largest)
    keep_first(place, at);
}

H3_ANYWHERE inline void merge(const Measured& from, Measured& into) {
  into.differing += from.differing;
  into.differing_values += from.differing_values;
  into.negative_zero += from.negative_zero;
  into.unwritten += from.unwritten;
  into.expected_nan += from.expected_nan;
  into.expected_inf += from.expected_inf;
  into.actual_nan += from.actual_nan;
  into.actual_inf += from.actual_inf;
  into.non_finite_mismatches += from.non_finite_mismatches;
  keep_first(into.first_differing, from.first_differing);
  keep_first(into.first_unwritten, from.first_unwritten);
  keep_first(into.first_non_finite_mismatch, from.first_non_finite_mismatch);
  if (from.expected_absmax > into.expected_absmax) into.expected_absmax = from.expected_absmax;
  keep_largest(into.max_abs, into.max_abs_index, from.max_abs, from.max_abs_index);
  keep_largest(into.max_ulp, into.max_ulp_index, from.max_ulp, from.max_ulp_index);
  into.error2 += from.error2;
  into.expected2 += from.expected2;
  into.actual2 += from.actual2;
  into.product += from.product;
}

// Element i, whatever its words are: `x` is expected and rounds to the word `e`, `a` is there and stands for
// `y`.
template <class Format>
H3_ANYWHERE inline void measure_element(double x, typename Format::Word e, typename Format::Word a, double y,
                                        std::int64_t i, Measured& m) {
  const bool e_nan = x != x, e_finite = x - x == 0, a_nan = Format::nan(a), a_finite = Format::finite(a);
  m.expected_nan += e_nan;
  m.actual_nan += a_nan;
  m.expected_inf += !e_nan && !e_finite;
  m.actual_inf += !a_nan && !a_finite;
  if (a == Format::kPoison) {
    ++m.unwritten;
    keep_first(m.first_unwritten, i);
  }
  if (e != a) {
    ++m.differing;
    keep_first(m.first_differing, i);
    const bool zeros = ((e | a) & Format::kMagnitude) == 0;
    m.negative_zero += zeros;
    m.differing_values += !zeros && !(e_nan && a_nan);
  }
  if (!e_finite || !a_finite) {
    const bool agree = (e_nan && a_nan) || (!e_nan && !a_nan && !e_finite && e == a);
    if (!agree) {
      ++m.non_finite_mismatches;
      keep_first(m.first_non_finite_mismatch, i);
    }
    return;
  }
  const double error = y > x ? y - x : x - y, size = x < 0 ? -x : x;
  m.error2 += error * error;
  m.expected2 += x * x;
  m.actual2 += y * y;
  m.product += x * y;
  if (size > m.expected_absmax) m.expected_absmax = size;
  if (error > 0) keep_largest(m.max_abs, m.max_abs_index, error, i);
  if (!Format::finite(e)) return;  // a finite golden beyond the range of the output's type: no ulps to count
  const std::uint64_t ulps = Format::ulps_between(e, a);
  if (ulps > 0) keep_largest(m.max_ulp, m.max_ulp_index, ulps, i);
}

}  // namespace h3
