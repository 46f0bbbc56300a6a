// What a bound would notice. Faults are planted into the golden itself and judged by the bound: the smallest
// that is caught says more about a gate than the limit does.
#pragma once

#include <string>
#include <vector>

#include "harness/compare/compare.h"

namespace h3 {

struct PlantedFault {
  std::string name;
  bool caught = false;
  std::string reason;  // what decided
};

struct Power {
  std::vector<PlantedFault>
      faults;  // zeros, doubled, rows_permuted, last_row_lost, largest_element_negated, ...
  // The largest k for which scaling by 1 + 2^-k, or adding 2^-k of the golden's RMS to every element, is
  // caught; -1 when not even k = 0 is.
  int smallest_scale = -1, smallest_shift = -1;
  std::string summary()
      const;  // "catches scaling by 1+2^-7, a shift of 2^-6 rms, ...; misses one typical element negated"
};

// The golden is FP32 or FP64; candidates are stored as `stored_as`, the type of the output that the bound is
// for. Throws h3::Error for a bound that is a defect of the gate: one that refuses the rounded golden itself,
// or accepts zeros, a doubled tensor, or one whose rows are permuted (or whose columns are, when it has one
// row).
Power power_of(const Bound& bound, const Tensor& golden, DType stored_as);

}  // namespace h3
