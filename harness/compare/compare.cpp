#include "harness/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "harness/compare/comparison_sums.h"
#include "model/parallel.h"

namespace h3 {
namespace {

constexpr std::int64_t kBlock = 2048;          // small enough for the first cache level
constexpr std::int64_t kChunk = 128 * kBlock;  // one work item; partial results are merged in order

// How the words of an element type are laid out: sign, then magnitude, larger magnitudes being larger words.
template <class T>
struct Format;
template <>
struct Format<Bf16> {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7f80;
};
template <>
struct Format<Fp16> {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7c00;
};
template <>
struct Format<float> {
  using Word = std::uint32_t;
  static constexpr Word kInfinity = 0x7f800000;
};
template <>
struct Format<double> {
  using Word = std::uint64_t;
  static constexpr Word kInfinity = 0x7ff0000000000000;
};

template <class T>
using Word = typename Format<T>::Word;
template <class T>
constexpr Word<T> kMagnitude = Word<T>(Word<T>(~Word<T>(0)) >> 1);
template <class T>
constexpr Word<T> kPoison = Word<T>(~Word<T>(0));

template <class T>
Word<T> word_of(T value) {
  return std::bit_cast<Word<T>>(value);
}
template <class T>
bool finite(Word<T> word) {
  return (word & kMagnitude<T>) < Format<T>::kInfinity;
}
template <class T>
bool nan(Word<T> word) {
  return (word & kMagnitude<T>) > Format<T>::kInfinity;
}

double widened(Bf16 value) { return to_float(value); }
double widened(Fp16 value) { return to_float(value); }
double widened(float value) { return value; }
double widened(double value) { return value; }

// FP64 to FP32 such that a second rounding, to 16 bits, is the only one that shows: the last bit remembers
// what was cut.
float round_to_odd(double value) {
  const float nearest = float(value);
  if (double(nearest) == value || !std::isfinite(nearest)) return nearest;
  const float down = std::fabs(double(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(down) | 1u);
}

template <class A, class E>
A rounded(E value) {
  if constexpr (std::is_same_v<A, E>) {
    return value;
  } else if constexpr (std::is_same_v<A, float>) {
    return float(value);
  } else {
    float narrow;
    if constexpr (std::is_same_v<E, double>)
      narrow = round_to_odd(value);
    else
      narrow = value;
    if constexpr (std::is_same_v<A, Bf16>)
      return to_bf16(narrow);
    else
      return to_fp16(narrow);
  }
}

// Wide enough for the distance of any two finite words.
template <class A>
using Ulps = std::conditional_t<sizeof(A) == 8, std::uint64_t, std::uint32_t>;

template <class A>
Ulps<A> ulps_between(Word<A> a, Word<A> b) {
  const Ulps<A> x = a & kMagnitude<A>, y = b & kMagnitude<A>;
  const bool same_sign = ((a ^ b) & Word<A>(~kMagnitude<A>)) == 0;
  return same_sign ? (x > y ? x - y : y - x) : x + y;
}

// What one chunk knows. Sums are FP64 over eight lanes in a fixed order.
struct Partial : ComparisonSums {
  Comparison counts;
};

void note_first(std::int64_t& first, std::int64_t index) {
  if (first < 0) first = index;
}

// One element, any words.
template <class E, class A>
void measure_element(const E* expected, const A* actual, std::int64_t i, Partial& partial) {
  Comparison& c = partial.counts;
  const Word<E> exact = word_of(expected[i]);
  const Word<A> e = word_of(rounded<A>(expected[i])), a = word_of(actual[i]);
  const bool e_nan = nan<E>(exact), a_nan = nan<A>(a);
  const bool e_finite = finite<E>(exact), a_finite = finite<A>(a);
  c.expected_nan += e_nan;
  c.actual_nan += a_nan;
  c.expected_inf += !e_nan && !e_finite;
  c.actual_inf += !a_nan && !a_finite;
  if (a == kPoison<A>) {
    ++c.unwritten;
    note_first(c.first_unwritten, i);
  }
  if (e != a) {
    ++c.differing;
    note_first(c.first_differing, i);
    const bool zeros = ((e | a) & kMagnitude<A>) == 0;
    c.negative_zero += zeros;
    c.differing_values += !zeros && !(e_nan && a_nan);
  }
  if (!e_finite || !a_finite) {
    const bool agree = (e_nan && a_nan) || (!e_nan && !a_nan && !e_finite && e == a);
    if (!agree) {
      ++c.non_finite_mismatches;
      note_first(c.first_non_finite_mismatch, i);
    }
    return;
  }
  const double x = widened(expected[i]), y = widened(actual[i]), error = std::fabs(y - x);
  partial.error2 += error * error;
  partial.expected2 += x * x;
  partial.actual2 += y * y;
  partial.product += x * y;
  c.expected_absmax = std::max(c.expected_absmax, std::fabs(x));
  if (error > c.max_abs) c.max_abs = error, c.max_abs_index = i;
  if (!finite<A>(e)) return;  // a finite golden beyond the range of the output's type: no ulps to count
  const std::uint64_t ulps = ulps_between<A>(e, a);
  if (ulps > c.max_ulp) c.max_ulp = ulps, c.max_ulp_index = i;
}

// A block of finite numbers: plain loops that a compiler can vectorise; places are looked up only when a
// maximum moved.
template <class E, class A>
void measure_finite_block(const E* expected, const A* actual, std::int64_t begin, std::int64_t count,
                          Partial& partial) {
  constexpr int kLanes = 8;
  std::array<double, kLanes> error2{}, expected2{}, actual2{}, product{}, absmax{}, max_error{};
  std::array<Ulps<A>, kLanes> max_ulp{};
  std::array<std::int64_t, kLanes> differing{}, zeros{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const E exact = expected[begin + i + lane];
      const A got = actual[begin + i + lane];
      const Word<A> e = word_of(rounded<A>(exact)), a = word_of(got);
      const double x = widened(exact), y = widened(got), error = std::fabs(y - x);
      error2[lane] += error * error;
      expected2[lane] += x * x;
      actual2[lane] += y * y;
      product[lane] += x * y;
      absmax[lane] = std::max(absmax[lane], std::fabs(x));
      max_error[lane] = std::max(max_error[lane], error);
      max_ulp[lane] = std::max(max_ulp[lane], ulps_between<A>(e, a));
      differing[lane] += e != a;
      zeros[lane] += (e != a) & (((e | a) & kMagnitude<A>) == 0);
    }
  }
  Comparison& c = partial.counts;
  std::int64_t different = 0, only_sign = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    partial.error2 += error2[lane];
    partial.expected2 += expected2[lane];
    partial.actual2 += actual2[lane];
    partial.product += product[lane];
    c.expected_absmax = std::max(c.expected_absmax, absmax[lane]);
    different += differing[lane];
    only_sign += zeros[lane];
  }
  const double worst_error = *std::ranges::max_element(max_error);
  const std::uint64_t worst_ulp = *std::ranges::max_element(max_ulp);
  const bool look_up =
      worst_error > c.max_abs || worst_ulp > c.max_ulp || (different > 0 && c.first_differing < 0);
  c.differing += different;
  c.negative_zero += only_sign;
  c.differing_values += different - only_sign;
  if (!look_up) return;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const Word<A> e = word_of(rounded<A>(expected[i])), a = word_of(actual[i]);
    const double error = std::fabs(widened(actual[i]) - widened(expected[i]));
    if (e != a) note_first(c.first_differing, i);
    if (error > c.max_abs) c.max_abs = error, c.max_abs_index = i;
    if (const std::uint64_t ulps = ulps_between<A>(e, a); ulps > c.max_ulp)
      c.max_ulp = ulps, c.max_ulp_index = i;
  }
}

// A block of finite numbers whose words are the same: only the norms are left to add to.
template <class T>
void measure_same_block(const T* values, std::int64_t begin, std::int64_t count, Partial& partial) {
  constexpr int kLanes = 8;
  std::array<double, kLanes> squares{}, absmax{};
  for (std::int64_t i = begin; i < begin + count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double x = widened(values[i + lane]);
      squares[lane] += x * x;
      absmax[lane] = std::max(absmax[lane], std::fabs(x));
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    partial.expected2 += squares[lane];
    partial.actual2 += squares[lane];
    partial.product += squares[lane];
    partial.counts.expected_absmax = std::max(partial.counts.expected_absmax, absmax[lane]);
  }
}

template <class E, class A>
bool same_words(const E* expected, const A* actual, std::int64_t begin, std::int64_t count) {
  if constexpr (std::is_same_v<E, A>)
    return std::memcmp(expected + begin, actual + begin, std::size_t(count) * sizeof(A)) == 0;
  return false;
}

template <class E, class A>
bool all_finite(const E* expected, const A* actual, std::int64_t begin, std::int64_t count) {
  std::int64_t other = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    other += !finite<A>(word_of(rounded<A>(expected[i])));
    other += !finite<A>(word_of(actual[i]));
  }
  return other == 0;
}

template <class E, class A>
void measure(const E* expected, const A* actual, std::int64_t begin, std::int64_t end, Partial& partial) {
  std::int64_t i = begin;
  for (; i + kBlock <= end; i += kBlock) {
    if (!all_finite(expected, actual, i, kBlock)) {
      for (std::int64_t j = i; j < i + kBlock; ++j) measure_element(expected, actual, j, partial);
    } else if (same_words(expected, actual, i, kBlock)) {
      measure_same_block(actual, i, kBlock, partial);
    } else {
      measure_finite_block(expected, actual, i, kBlock, partial);
    }
  }
  for (; i < end; ++i) measure_element(expected, actual, i, partial);
}

void measure(const std::int64_t* expected, const std::int64_t* actual, std::int64_t begin, std::int64_t end,
             Partial& partial) {
  Comparison& c = partial.counts;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t e = expected[i], a = actual[i];
    const double x = double(e), y = double(a);
    partial.expected2 += x * x;
    partial.actual2 += y * y;
    partial.product += x * y;
    c.expected_absmax = std::max(c.expected_absmax, std::fabs(x));
    if (e == a) continue;
    ++c.differing;
    ++c.differing_values;
    note_first(c.first_differing, i);
    const std::uint64_t steps =
        e > a ? std::uint64_t(e) - std::uint64_t(a) : std::uint64_t(a) - std::uint64_t(e);
    partial.error2 += double(steps) * double(steps);
    if (steps > c.max_ulp) {
      c.max_ulp = steps, c.max_ulp_index = i;
      c.max_abs = double(steps), c.max_abs_index = i;
    }
  }
}

void merge(const Partial& from, Partial& into) {
  const Comparison& f = from.counts;
  Comparison& c = into.counts;
  c.differing += f.differing;
  c.differing_values += f.differing_values;
  c.negative_zero += f.negative_zero;
  c.unwritten += f.unwritten;
  c.expected_nan += f.expected_nan;
  c.expected_inf += f.expected_inf;
  c.actual_nan += f.actual_nan;
  c.actual_inf += f.actual_inf;
  c.non_finite_mismatches += f.non_finite_mismatches;
  note_first(c.first_differing, f.first_differing);
  note_first(c.first_unwritten, f.first_unwritten);
  note_first(c.first_non_finite_mismatch, f.first_non_finite_mismatch);
  c.expected_absmax = std::max(c.expected_absmax, f.expected_absmax);
  if (f.max_abs > c.max_abs) c.max_abs = f.max_abs, c.max_abs_index = f.max_abs_index;
  if (f.max_ulp > c.max_ulp) c.max_ulp = f.max_ulp, c.max_ulp_index = f.max_ulp_index;
  into.error2 += from.error2;
  into.expected2 += from.expected2;
  into.actual2 += from.actual2;
  into.product += from.product;
}

template <class E, class A>
Partial measure_all(const Tensor& expected, const Tensor& actual) {
  const std::int64_t elements = expected.elements();
  const E* e = expected.data<E>();
  const A* a = actual.data<A>();
  std::vector<Partial> partials(std::size_t((elements + kChunk - 1) / kChunk));
  parallel_for_each(std::int64_t(partials.size()), [&](std::int64_t chunk) {
    measure(e, a, chunk * kChunk, std::min(elements, (chunk + 1) * kChunk), partials[std::size_t(chunk)]);
  });
  Partial all;
  for (const Partial& partial : partials) merge(partial, all);
  return all;
}

template <class A>
Partial measure_against(const Tensor& expected, const Tensor& actual) {
  if (expected.dtype() == actual.dtype()) return measure_all<A, A>(expected, actual);
  if constexpr (!std::is_same_v<A, double> && !std::is_same_v<A, std::int64_t>) {
    if constexpr (!std::is_same_v<A, float>)
      if (expected.dtype() == DType::fp32) return measure_all<float, A>(expected, actual);
    if (expected.dtype() == DType::fp64) return measure_all<double, A>(expected, actual);
  }
  fail("compare: {} against {}", name_of(expected.dtype()), name_of(actual.dtype()));
}

bool wider(DType expected, DType actual) {
  const bool floats = expected != DType::i64 && actual != DType::i64;
  return floats && size_of(expected) > size_of(actual);
}

}  // namespace

std::string mismatch_of(const Tensor& expected, const Tensor& actual) {
  if (expected.empty() || actual.empty())
    return fmt::format("nothing compared: the {} tensor does not exist",
                       expected.empty() ? "expected" : "actual");
  if (expected.shape() != actual.shape())
    return fmt::format("shapes differ: expected {}, got {}", to_string(expected.shape()),
                       to_string(actual.shape()));
  if (expected.elements() == 0)
    return fmt::format("nothing compared: shape {} has no elements", to_string(expected.shape()));
  if (expected.dtype() != actual.dtype() && !wider(expected.dtype(), actual.dtype()))
    return fmt::format("types differ: expected {}, got {}", name_of(expected.dtype()),
                       name_of(actual.dtype()));
  return "";
}

namespace {

double ratio(double part, double whole) {
  if (part == 0) return 0;
  return whole == 0 ? std::numeric_limits<double>::infinity() : part / whole;
}

template <class T>
std::string word_text(T value) {
  return fmt::format("{:.9g} (0x{:0{}x})", widened(value), word_of(value), 2 * sizeof(T));
}

std::string element_text(const Tensor& tensor, std::int64_t index) {
  switch (tensor.dtype()) {
    case DType::bf16:
      return word_text(tensor.data<Bf16>()[index]);
    case DType::fp16:
      return word_text(tensor.data<Fp16>()[index]);
    case DType::fp32:
      return word_text(tensor.data<float>()[index]);
    case DType::fp64:
      return word_text(tensor.data<double>()[index]);
    case DType::i64:
      return std::to_string(tensor.data<std::int64_t>()[index]);
  }
  return "?";
}

std::string place(const Tensor& tensor, std::int64_t index) {
  std::string text;
  for (std::size_t axis = tensor.shape().size(); axis-- > 0;) {
    const std::int64_t extent = tensor.shape()[axis];
    text = std::to_string(index % extent) + (text.empty() ? "" : ", ") + text;
    index /= extent;
  }
  return "[" + text + "]";
}

nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

Comparison compare(const Tensor& expected, const Tensor& actual) {
  Comparison result;
  result.mismatch = mismatch_of(expected, actual);
  if (!result.mismatch.empty()) return result;

  Partial all;
  switch (actual.dtype()) {
    case DType::bf16:
      all = measure_against<Bf16>(expected, actual);
      break;
    case DType::fp16:
      all = measure_against<Fp16>(expected, actual);
      break;
    case DType::fp32:
      all = measure_against<float>(expected, actual);
      break;
    case DType::fp64:
      all = measure_against<double>(expected, actual);
      break;
    case DType::i64:
      all = measure_against<std::int64_t>(expected, actual);
      break;
  }
  return finished(all.counts, all, actual);
}

Comparison finished(Comparison result, const ComparisonSums& sums, const Tensor& actual) {
  result.dtype = actual.dtype();
  result.shape = actual.shape();
  result.elements = actual.elements();
  if (result.first_differing >= 0) result.first_row = result.first_differing / actual.cols();
  result.expected_l2 = std::sqrt(sums.expected2);
  result.actual_l2 = std::sqrt(sums.actual2);
  result.relative_l2 = ratio(std::sqrt(sums.error2), result.expected_l2);
  result.max_abs_over_absmax = ratio(result.max_abs, result.expected_absmax);
  const bool both_zero = sums.expected2 == 0 && sums.actual2 == 0;
  result.cosine = both_zero ? 1 : ratio(sums.product, result.expected_l2 * result.actual_l2);
  return result;
}

std::string describe(const Comparison& c, const Tensor& expected, const Tensor& actual) {
  if (!c.mismatch.empty()) return c.mismatch + "\n";
  std::string text = fmt::format("{} of {} elements differ ({} {})", c.differing, c.elements,
                                 name_of(c.dtype), to_string(c.shape));
  if (c.negative_zero) text += fmt::format(", {} of them only in the sign of a zero", c.negative_zero);
  text += fmt::format(
      "\nrelative_l2 {:.4g}, max_abs {:.4g}, max_ulp {}, max_abs_over_absmax {:.4g}, cosine {:.9f}\n",
      c.relative_l2, c.max_abs, c.max_ulp, c.max_abs_over_absmax, c.cosine);
  if (c.expected_nan + c.expected_inf + c.actual_nan + c.actual_inf > 0)
    text += fmt::format("NaN: expected {}, got {}; Inf: expected {}, got {}\n", c.expected_nan, c.actual_nan,
                        c.expected_inf, c.actual_inf);
  if (c.unwritten) text += fmt::format("{} elements were never written\n", c.unwritten);

  const auto show = [&](const char* what, std::int64_t index) {
    if (index < 0) return;
    text += fmt::format("{} at {} (element {}): expected {}, got {}\n", what, place(actual, index), index,
                        element_text(expected, index), element_text(actual, index));
  };
  show("first difference", c.first_differing);
  show("largest error", c.max_abs_index);
  if (c.max_ulp_index != c.max_abs_index) show("most ulps", c.max_ulp_index);
  show("first NaN or Inf", c.first_non_finite_mismatch);
  show("first unwritten", c.first_unwritten);

  constexpr std::int64_t kNeighbours = 2;
  std::int64_t centre = c.first_non_finite_mismatch;
  if (centre < 0) centre = c.max_abs_index >= 0 ? c.max_abs_index : c.first_differing;
  if (centre < 0) return text;
  text += "around it:\n";
  for (std::int64_t i = std::max<std::int64_t>(0, centre - kNeighbours);
       i <= std::min(c.elements - 1, centre + kNeighbours); ++i)
    text += fmt::format("  {} expected {}, got {}\n", place(actual, i), element_text(expected, i),
                        element_text(actual, i));
  return text;
}

nlohmann::ordered_json to_json(const Comparison& c) {
  if (!c.mismatch.empty()) return {{"mismatch", c.mismatch}};
  return {{"dtype", name_of(c.dtype)},
          {"shape", c.shape},
          {"elements", c.elements},
          {"differing", c.differing},
          {"first_differing", c.first_differing},
          {"first_row", c.first_row},
          {"differing_values", c.differing_values},
          {"negative_zero", c.negative_zero},
          {"unwritten", c.unwritten},
          {"expected_nan", c.expected_nan},
          {"expected_inf", c.expected_inf},
          {"actual_nan", c.actual_nan},
          {"actual_inf", c.actual_inf},
          {"non_finite_mismatches", c.non_finite_mismatches},
          {"max_abs", number(c.max_abs)},
          {"max_abs_index", c.max_abs_index},
          {"max_ulp", c.max_ulp},
          {"max_ulp_index", c.max_ulp_index},
          {"relative_l2", number(c.relative_l2)},
          {"max_abs_over_absmax", number(c.max_abs_over_absmax)},
          {"cosine", number(c.cosine)}};
}

Judgement judge(const Bound& bound, const Comparison& c) {
  const auto refuse = [](const char* metric, double measured, const std::string& reason) {
    return Judgement{false, metric, 0, measured, reason};
  };
  if (!c.mismatch.empty()) return refuse("comparable", 1, c.mismatch);
  if (c.unwritten > 0)
    return refuse("written", double(c.unwritten),
                  fmt::format("{} of {} elements were never written, the first is {}", c.unwritten,
                              c.elements, c.first_unwritten));
  if (c.non_finite_mismatches > 0)
    return refuse("finite", double(c.non_finite_mismatches),
                  fmt::format("{} of {} elements are NaN or Inf on one side only, the first is {}",
                              c.non_finite_mismatches, c.elements, c.first_non_finite_mismatch));
  if (c.expected_nan > 0)
    return refuse("golden_finite", double(c.expected_nan),
                  fmt::format("the golden holds {} NaN", c.expected_nan));
  if (c.expected_l2 == 0)
    return refuse("golden_energy", 0, "the golden is all zeros: a bound on it proves nothing");

  Judgement worst;
  double worst_use = -1;  // measured / limit
  const auto hold = [&](const char* metric, std::optional<double> limit, double measured) {
    if (!limit) return;
    const bool accepted = measured <= *limit;  // false for NaN
    const double use = accepted ? ratio(measured, *limit) : std::max(1 + 1e-9, ratio(measured, *limit));
    if (!(use <= worst_use)) {
      worst_use = use;
      worst = {accepted, metric, *limit, measured,
               fmt::format("{} {:.6g} {} the limit {:.6g}", metric, measured,
                           accepted ? "is within" : "exceeds", *limit)};
    }
  };
  hold("relative_l2", bound.relative_l2, c.relative_l2);
  hold("max_abs", bound.max_abs, c.max_abs);
  hold("max_abs_over_absmax", bound.max_abs_over_absmax, c.max_abs_over_absmax);
  hold("max_ulp", bound.max_ulp ? std::optional<double>(double(*bound.max_ulp)) : std::nullopt,
       double(c.max_ulp));
  require(worst_use >= 0, "bound: states no limit");
  return worst;
}

}  // namespace h3
