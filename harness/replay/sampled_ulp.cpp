#include "harness/replay/sampled_ulp.h"

#include "harness/execution/row_subset.h"

namespace h3 {

SampledUlp sampled_ulp(const Tensor& golden, const Tensor& candidate, const RecordedBytes& recorded) {
  const std::int64_t cols = recorded.rows.cols();
  const auto sampled = [&](const Tensor& whole) {
    return gather_rows(whole.reshaped({recorded.height, cols}), recorded.sampled_rows);
  };
  const Tensor truth = sampled(golden);
  return {recorded.sampled_rows, cols, ulp_histogram(truth, sampled(candidate)),
          ulp_histogram(truth, recorded.rows)};
}

}  // namespace h3
