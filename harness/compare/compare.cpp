#include "harness/compare/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "harness/compare/measured.h"
#include "model/parallel.h"

namespace h3 {
namespace {

constexpr std::int64_t kBlock = 2048;          // small enough for the first cache level
constexpr std::int64_t kChunk = 128 * kBlock;  // one work item; partial results are merged in order

template <class T>
struct Format;
template <>
struct Format<Bf16> : WordFormat<std::uint16_t, 0x7f80> {};
template <>
struct Format<Fp16> : WordFormat<std::uint16_t, 0x7c00> {};
template <>
struct Format<float> : WordFormat<std::uint32_t, 0x7f800000> {};
template <>
struct Format<double> : WordFormat<std::uint64_t, 0x7ff0000000000000> {};
template <class T>
using Word = typename Format<T>::Word;

template <class T>
Word<T> word_of(T value) {
  return std::bit_cast<Word<T>>(value);
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

template <class E, class A>
void measure_at(const E* expected, const A* actual, std::int64_t i, Measured& m) {
  measure_element<Format<A>>(widened(expected[i]), word_of(rounded<A>(expected[i])), word_of(actual[i]),
                             widened(actual[i]), i, m);
}

// A block of finite numbers: plain loops that a compiler can vectorise; places are looked up only when a
// maximum moved.
template <class E, class A>
void measure_finite_block(const E* expected, const A* actual, std::int64_t begin, std::int64_t count,
                          Measured& m) {
  constexpr int kLanes = 8;
  std::array<double, kLanes> error2{}, expected2{}, actual2{}, product{}, absmax{}, max_error{};
  std::array<typename Format<A>::Ulps, kLanes> max_ulp{};
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
      max_ulp[lane] = std::max(max_ulp[lane], Format<A>::ulps_between(e, a));
      differing[lane] += e != a;
      zeros[lane] += (e != a) & (((e | a) & Format<A>::kMagnitude) == 0);
    }
  }
  std::int64_t different = 0, only_sign = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    m.error2 += error2[lane];
    m.expected2 += expected2[lane];
    m.actual2 += actual2[lane];
    m.product += product[lane];
    m.expected_absmax = std::max(m.expected_absmax, absmax[lane]);
    different += differing[lane];
    only_sign += zeros[lane];
  }
  const double worst_error = *std::ranges::max_element(max_error);
  const std::uint64_t worst_ulp = *std::ranges::max_element(max_ulp);
  const bool look_up =
      worst_error > m.max_abs || worst_ulp > m.max_ulp || (different > 0 && m.first_differing < 0);
  m.differing += different;
  m.negative_zero += only_sign;
  m.differing_values += different - only_sign;
  if (!look_up) return;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const Word<A> e = word_of(rounded<A>(expected[i])), a = word_of(actual[i]);
    const double error = std::fabs(widened(actual[i]) - widened(expected[i]));
    if (e != a) keep_first(m.first_differing, i);
    if (error > m.max_abs) m.max_abs = error, m.max_abs_index = i;
    if (const std::uint64_t ulps = Format<A>::ulps_between(e, a); ulps > m.max_ulp)
      m.max_ulp = ulps, m.max_ulp_index = i;
  }
}

// A block of finite numbers whose words are the same: only the norms are left to add to.
template <class T>
void measure_same_block(const T* values, std::int64_t begin, std::int64_t count, Measured& m) {
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
    m.expected2 += squares[lane];
    m.actual2 += squares[lane];
    m.product += squares[lane];
    m.expected_absmax = std::max(m.expected_absmax, absmax[lane]);
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
    other += !Format<A>::finite(word_of(rounded<A>(expected[i])));
    other += !Format<A>::finite(word_of(actual[i]));
  }
  return other == 0;
}

template <class E, class A>
void measure(const E* expected, const A* actual, std::int64_t begin, std::int64_t end, Measured& m) {
  std::int64_t i = begin;
  for (; i + kBlock <= end; i += kBlock) {
    if (!all_finite(expected, actual, i, kBlock)) {
      for (std::int64_t j = i; j < i + kBlock; ++j) measure_at(expected, actual, j, m);
    } else if (same_words(expected, actual, i, kBlock)) {
      measure_same_block(actual, i, kBlock, m);
    } else {
      measure_finite_block(expected, actual, i, kBlock, m);
    }
  }
  for (; i < end; ++i) measure_at(expected, actual, i, m);
}

void measure(const std::int64_t* expected, const std::int64_t* actual, std::int64_t begin, std::int64_t end,
             Measured& m) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t e = expected[i], a = actual[i];
    const double x = double(e), y = double(a);
    m.expected2 += x * x;
    m.actual2 += y * y;
    m.product += x * y;
    m.expected_absmax = std::max(m.expected_absmax, std::fabs(x));
    if (e == a) continue;
    ++m.differing;
    ++m.differing_values;
    keep_first(m.first_differing, i);
    const std::uint64_t steps =
        e > a ? std::uint64_t(e) - std::uint64_t(a) : std::uint64_t(a) - std::uint64_t(e);
    m.error2 += double(steps) * double(steps);
    if (steps > m.max_ulp) {
      m.max_ulp = steps, m.max_ulp_index = i;
      m.max_abs = double(steps), m.max_abs_index = i;
    }
  }
}

template <class E, class A>
Measured measure_all(const Tensor& expected, const Tensor& actual) {
  const std::int64_t elements = expected.elements();
  const E* e = expected.data<E>();
  const A* a = actual.data<A>();
  std::vector<Measured> parts(std::size_t((elements + kChunk - 1) / kChunk));
  parallel_for_each(std::int64_t(parts.size()), [&](std::int64_t chunk) {
    measure(e, a, chunk * kChunk, std::min(elements, (chunk + 1) * kChunk), parts[std::size_t(chunk)]);
  });
  Measured all;
  for (const Measured& part : parts) merge(part, all);
  return all;
}

template <class A>
Measured measure_against(const Tensor& expected, const Tensor& actual) {
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

  Measured all;
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
  return finished(all, actual);
}

Comparison finished(const Measured& m, const Tensor& actual) {
  Comparison result{m};
  result.dtype = actual.dtype();
  result.shape = actual.shape();
  result.elements = actual.elements();
  if (result.first_differing >= 0) result.first_row = result.first_differing / actual.cols();
  result.expected_l2 = std::sqrt(m.expected2);
  result.actual_l2 = std::sqrt(m.actual2);
  result.relative_l2 = ratio(std::sqrt(m.error2), result.expected_l2);
  result.max_abs_over_absmax = ratio(result.max_abs, result.expected_absmax);
  const bool both_zero = m.expected2 == 0 && m.actual2 == 0;
  result.cosine = both_zero ? 1 : ratio(m.product, result.expected_l2 * result.actual_l2);
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
