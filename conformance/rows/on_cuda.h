// Engine `cuda` of the rows: H3_ROWS_ON_CUDA(Suite, kRows) makes the claims of row.h about the strict kernel
// of every line of the same table, and the one that matters most: its bytes are the CPU twin's. They belong
// to gate rows_cuda, and exist in builds with a CUDA toolkit only.
#pragma once

#include <span>

#include "conformance/rows/row.h"

#ifdef H3_HAVE_CUDA

#include "kernels/cuda/device.h"
#include "kernels/cuda/row_index.h"

namespace h3 {

// A case in a gate of engine cuda begins with this in its SetUp; a skip never closes a gate.
#define H3_NEEDS_HOPPER()                                              \
  do {                                                                 \
    if (const std::string why = cuda::why_unavailable(); !why.empty()) \
      GTEST_SKIP() << "no_device: no Hopper GPU: " << why;             \
  } while (false)

// The problem with the strict kernel in the place of the twin. Its output lies between guard bands on the
// GPU; a band that changed is an Error.
RowProblem on_cuda(const RowProblem& problem);
std::vector<RowCase> on_cuda(std::span<const RowCase> rows);

testing::AssertionResult equals_the_twin(const RowProblem& problem);

// As is_refused, y on the GPU.
testing::AssertionResult is_refused_on_cuda(const BadInput& bad);

#define H3_ON_CUDA(...) __VA_ARGS__
#define H3_ROWS_ON_CUDA(Suite, rows)                                                           \
  struct Suite##OnCuda : Suite {                                                               \
    void SetUp() override { H3_NEEDS_HOPPER(); }                                               \
  };                                                                                           \
  TEST_P(Suite##OnCuda, equals_the_twin) { EXPECT_TRUE(equals_the_twin(problem())); }          \
  TEST_P(Suite##OnCuda, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(on_cuda(problem()))); } \
  TEST_P(Suite##OnCuda, rows_alone_equal_rows_in_a_batch) {                                    \
    EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(on_cuda(problem())));                         \
  }                                                                                            \
  TEST_P(Suite##OnCuda, follows_a_row_permutation) {                                           \
    EXPECT_TRUE(follows_a_row_permutation(on_cuda(problem())));                                \
  }                                                                                            \
  TEST_P(Suite##OnCuda, stays_inside_its_output) {                                             \
    EXPECT_TRUE(stays_inside_its_output(on_cuda(problem())));                                  \
  }                                                                                            \
  INSTANTIATE_TEST_SUITE_P(rows_cuda, Suite##OnCuda, testing::ValuesIn(on_cuda(rows)), row_name)
#define H3_SUMS_ON_CUDA(Suite, rows)                                                           \
  struct Suite##OnCuda : Suite {                                                               \
    void SetUp() override { H3_NEEDS_HOPPER(); }                                               \
  };                                                                                           \
  TEST_P(Suite##OnCuda, equals_the_twin) { EXPECT_TRUE(equals_the_twin(problem())); }          \
  TEST_P(Suite##OnCuda, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(on_cuda(problem()))); } \
  TEST_P(Suite##OnCuda, stays_inside_its_output) {                                             \
    EXPECT_TRUE(stays_inside_its_output(on_cuda(problem())));                                  \
  }                                                                                            \
  INSTANTIATE_TEST_SUITE_P(rows_cuda, Suite##OnCuda, testing::ValuesIn(on_cuda(rows)), row_name)

// fp32, as much as a row's backward asks for.
inline Tensor workspace(std::int64_t elements) { return cuda::allocate(DType::fp32, {elements}); }

}  // namespace h3

#else

#define H3_ON_CUDA(...) nullptr
#define H3_ROWS_ON_CUDA(Suite, rows) static_assert(true)
#define H3_SUMS_ON_CUDA(Suite, rows) static_assert(true)

#endif
