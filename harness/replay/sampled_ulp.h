// Distances to the golden in ulp, the candidate's beside the provider's: over the full-width rows that a
// record holds of what the provider computed, on the very same elements. A measurement: it accepts nothing
// and refuses nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/provider_record.h"
#include "harness/replay/ulp.h"

namespace h3 {

struct SampledUlp {
  std::vector<std::int64_t> rows;  // of the whole tensor
  std::int64_t cols = 0;
  UlpHistogram candidate, provider;  // indices are those of the sampled rows, one after another

  bool equal() const { return candidate == provider; }
};

// Golden (FP32) and candidate are whole.
SampledUlp sampled_ulp(const Tensor& golden, const Tensor& candidate, const RecordedBytes& recorded);

}  // namespace h3
