#include "harness/compare/first_difference.h"

#include <algorithm>
#include <cstring>

#include "harness/compare/compare.h"

namespace h3 {

bool identical(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::ranges::equal(a.byte_span(), b.byte_span());
}

std::optional<Drift> first_difference(const std::string& name, const Tensor& expected, const Tensor& got,
                                      const std::string& what, std::span<const std::int64_t> rows) {
  if (expected.size_bytes() == got.size_bytes() &&
      !std::memcmp(expected.bytes(), got.bytes(), got.size_bytes()))
    return {};
  const Comparison found = compare(expected, got);
  if (!found.mismatch.empty()) return Drift{name, -1, -1, -1, fmt::format("{}: {}", what, found.mismatch)};
  const Shape& shape = expected.shape();
  const std::int64_t cols = expected.elements() / shape[0];
  const std::int64_t row = found.first_differing / cols, element = found.first_differing % cols;
  return Drift{name, rows.empty() ? row : rows[std::size_t(row)], shape.size() == 3 ? element / shape[2] : -1,
               element,
               fmt::format("{}: expected {}, got {}, {} of {} elements differ", what,
                           expected.at(found.first_differing), got.at(found.first_differing), found.differing,
                           found.elements)};
}

}  // namespace h3
