// An index per packed row, checked on the host once, then kept on the device: a launch never meets a bad one.
#pragma once

#include "model/tensor.h"

namespace h3::cuda {

class RowIndex {
 public:
  // index (S) i64 on the CPU, every value in [0, limit). Error: the first value outside, by its place.
  RowIndex(const Tensor& index, std::int64_t limit);

  std::int64_t rows() const { return on_device_.elements(); }
  std::int64_t limit() const { return limit_; }
  const std::int64_t* data() const { return on_device_.data<std::int64_t>(); }

  // The same rows by segment (kernels/numerics/row_sum.h), and their runs: what a sum over the rows of each
  // value walks.
  std::int64_t runs() const { return run_first_.elements() - 1; }
  const std::int64_t* rows_by_segment() const { return rows_by_segment_.data<std::int64_t>(); }
  const std::int64_t* run_first() const { return run_first_.data<std::int64_t>(); }  // (runs + 1), in those
  const std::int64_t* segment_run() const { return segment_run_.data<std::int64_t>(); }  // (limit + 1)

 private:
  std::int64_t limit_;
  Tensor on_device_, rows_by_segment_, run_first_, segment_run_;
};

}  // namespace h3::cuda
