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

 private:
  std::int64_t limit_;
  Tensor on_device_;
};

}  // namespace h3::cuda
