// What a conformance case can say about tensors, as GoogleTest assertions:
//
//   EXPECT_TRUE(bitwise_equal(expected, actual));
//   EXPECT_TRUE(within({.relative_l2 = 1e-3}, golden, actual));
//
// A failure shows the limit and the measured value, how many elements differ, the worst one with its
// neighbours and the command that reruns this one case. An accepted claim records metric, limit and measured
// as properties of the case, so that a creeping error is seen before it crosses; of several claims in a case,
// the tightest stays. A rejected one records rejected_by, rejected_limit and rejected_measured: the reason of
// a failure, or, in a case that plants a fault, what noticed it.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "harness/compare/compare.h"

namespace h3 {

// Every word is the same and was written. NaN words may be equal; the poison of an unwritten tensor never is.
[[nodiscard]] testing::AssertionResult bitwise_equal(const Tensor& expected, const Tensor& actual);

[[nodiscard]] testing::AssertionResult within(const Bound& bound, const Tensor& golden, const Tensor& actual);

// An output between guard bands. The inside starts poisoned; the bands hold a pattern and are compared
// afterwards.
class GuardedOutput {
 public:
  GuardedOutput(DType dtype, Shape shape);

  Tensor& tensor() { return inside_; }
  const Tensor& tensor() const { return inside_; }
  [[nodiscard]] testing::AssertionResult nothing_written_outside() const;
  [[nodiscard]] testing::AssertionResult everything_written_inside()
      const;  // float types: i64 has no value that nobody writes

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_bytes_;
  Tensor inside_;
};

}  // namespace h3
