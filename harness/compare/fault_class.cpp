#include "harness/compare/fault_class.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "harness/compare/compare.h"

namespace h3 {
namespace {

template <class Word>
std::vector<Word> sorted_words(const Tensor& tensor) {
  std::vector<Word> words(static_cast<std::size_t>(tensor.elements()));
  std::memcpy(words.data(), tensor.bytes(), tensor.size_bytes());
  std::ranges::sort(words);
  return words;
}

bool same_words_elsewhere(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.elements() != b.elements()) return false;
  switch (size_of(a.dtype())) {
    case 2:
      return sorted_words<std::uint16_t>(a) == sorted_words<std::uint16_t>(b);
    case 4:
      return sorted_words<std::uint32_t>(a) == sorted_words<std::uint32_t>(b);
    default:
      return sorted_words<std::uint64_t>(a) == sorted_words<std::uint64_t>(b);
  }
}

// The largest relative L2 distance of a row (innermost extent): one wrong row among many is no rounding.
double largest_row_distance(const Tensor& expected, const Tensor& got) {
  double largest = 0;
  for (std::int64_t r = 0; r < expected.rows(); ++r) {
    double difference = 0, norm = 0;
    for (std::int64_t i = r * expected.cols(); i < (r + 1) * expected.cols(); ++i) {
      const double x = expected.at(i), d = double(got.at(i)) - x;
      norm += x * x;
      difference += d * d;
    }
    if (difference > 0) largest = std::max(largest, std::sqrt(difference / norm));
  }
  return largest;
}

}  // namespace

const char* name_of(FaultClass fault) {
  switch (fault) {
    case FaultClass::none:
      return "none";
    case FaultClass::formula:
      return "formula";
    case FaultClass::layout:
      return "layout";
    case FaultClass::rounding:
      return "rounding";
    case FaultClass::not_repeatable:
      return "not_repeatable";
    case FaultClass::memory:
      return "memory";
    case FaultClass::non_finite:
      return "non_finite";
    case FaultClass::rejection:
      return "rejection";
    case FaultClass::no_effect:
      return "no_effect";
    case FaultClass::reference_fault:
      return "reference_fault";
    case FaultClass::vacuous:
      return "vacuous";
    case FaultClass::infrastructure:
      return "infrastructure";
  }
  return "?";
}

FaultClass classify(const Tensor& expected, const Tensor& got) {
  const Comparison found = compare(expected, got);
  if (!found.mismatch.empty()) return found.elements == 0 ? FaultClass::vacuous : FaultClass::layout;
  if (found.same_bits()) return FaultClass::no_effect;
  if (found.unwritten > 0) return FaultClass::memory;
  if (found.non_finite_mismatches > 0) return FaultClass::non_finite;
  if (same_words_elsewhere(expected, got)) return FaultClass::layout;
  return largest_row_distance(expected, got) <= kRoundingDistance ? FaultClass::rounding
                                                                  : FaultClass::formula;
}

}  // namespace h3
