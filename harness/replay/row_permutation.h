// Control H-C3: packed rows that arrive in another order. They are put into canonical order once, at the
// model's entry, and back at its exit, so the arrival must not change a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/execution/block_inputs.h"
#include "model/layout.h"

namespace h3 {

class RowPermutation {
 public:
  explicit RowPermutation(const PackedLayout& layout);

  Tensor at_entry(const Tensor& packed) const;  // permuted, then in canonical order
  Values at_entry(Values inputs) const;         // every per-row input of a block
  // Rows of `output`, in canonical order, whose bytes are not those of the same row of `expected`, in packed
  // order.
  std::int64_t rows_changed(const Tensor& expected, const Tensor& output) const;

 private:
  std::vector<std::int64_t> arrival_, canonical_;
};

}  // namespace h3
