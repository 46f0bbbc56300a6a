#include "harness/replay/row_permutation.h"

#include <cstring>
#include <numeric>

#include "harness/execution/row_subset.h"

namespace h3 {

RowPermutation::RowPermutation(const PackedLayout& layout) : arrival_(std::size_t(layout.rows())) {
  const std::int64_t rows = layout.rows();
  std::int64_t stride = 101;
  while (std::gcd(stride, rows) != 1) ++stride;
  for (std::int64_t i = 0; i < rows; ++i) arrival_[std::size_t(i)] = (i * stride + 7) % rows;
  canonical_ = layout.permuted(arrival_).canonical_order();
}

Tensor RowPermutation::at_entry(const Tensor& packed) const {
  return gather_rows(gather_rows(packed, arrival_), canonical_);
}

Values RowPermutation::at_entry(Values inputs) const {
  for (const char* per_row : {"hidden_states", "adaln_indices", "rotary_cos", "rotary_sin"}) {
    Tensor& value = inputs.at(per_row);
    value = at_entry(value);
  }
  return inputs;
}

std::int64_t RowPermutation::rows_changed(const Tensor& expected, const Tensor& output) const {
  const std::size_t rows = arrival_.size(), stride = output.size_bytes() / rows;
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    // Canonical row i arrived at canonical[i], which is packed row arrival[canonical[i]].
    const auto packed = std::size_t(arrival_[std::size_t(canonical_[i])]);
    changed += std::memcmp(output.bytes() + i * stride, expected.bytes() + packed * stride, stride) != 0;
  }
  return changed;
}

}  // namespace h3
