#include "kernels/cuda/row_index.h"

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/numerics/row_sum.h"

namespace h3::cuda {
namespace {

Tensor uploaded(const std::vector<std::int64_t>& values) {
  Tensor host(DType::i64, {std::int64_t(values.size())});
  std::copy(values.begin(), values.end(), host.data<std::int64_t>());
  return upload(host);
}

}  // namespace

RowIndex::RowIndex(const Tensor& index, std::int64_t limit) : limit_(limit) {
  require(index.device() == Device::cpu && index.dtype() == DType::i64 && index.elements() > 0,
          "row index: expected a non-empty i64 tensor on the CPU");
  const auto values = index.values<std::int64_t>();
  for (std::size_t s = 0; s < values.size(); ++s)
    require(values[s] >= 0 && values[s] < limit, "row index: index[{}] is {}, expected 0..{}", s, values[s], limit - 1);
  on_device_ = upload(index);

  const numerics::Segments segments = numerics::segments_of(values, limit);
  std::vector<std::int64_t> run_first, segment_run{0};
  for (std::int64_t segment = 0; segment < limit; ++segment) {
    for (std::int64_t at = segments.first[segment]; at < segments.first[segment + 1]; at += numerics::kFanIn)
      run_first.push_back(at);
    segment_run.push_back(std::int64_t(run_first.size()));
  }
  run_first.push_back(std::int64_t(values.size()));
  rows_by_segment_ = uploaded(segments.rows);
  run_first_ = uploaded(run_first);
  segment_run_ = uploaded(segment_run);
}

}  // namespace h3::cuda
