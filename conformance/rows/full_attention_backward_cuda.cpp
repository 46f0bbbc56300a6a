// RFC row h3_full_attention on a Hopper GPU, backward: the bytes of the CPU twin and of the provider (cuDNN),
// whatever the extents are.
#ifdef H3_HAVE_CUDA

#include <gtest/gtest.h>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/rows/attention_problem.h"
#include "conformance/rows/on_cuda.h"
#include "kernels/cuda/device.h"

namespace h3 {
namespace {

// One row of poison before and after every result.
AttentionResult on_gpu(const AttentionProblem& problem) {
  const Shape rows = problem.q.shape(), others = problem.k.shape();
  const Tensor q = cuda::upload(problem.q), k = cuda::upload(problem.k), v = cuda::upload(problem.v),
               dout = cuda::upload(problem.dout);
  const auto wide = [](DType dtype, Shape shape) {
    shape[0] += 2;
    return cuda::allocate(dtype, shape);
  };
  AttentionResult outer{wide(DType::bf16, problem.dout.shape()), wide(DType::fp32, {rows[1], rows[0]}),
                        wide(DType::bf16, rows), wide(DType::bf16, others), wide(DType::bf16, others)};
  const auto inside = [](Tensor& tensor) { return tensor.row_range(1, tensor.shape()[0] - 2); };
  Tensor o = inside(outer.o), lse = inside(outer.lse), dq = inside(outer.dq), dk = inside(outer.dk),
         dv = inside(outer.dv);
  Tensor workspace =
      cuda::allocate(DType::fp32, {kernels::cuda::full_attention_backward_workspace(rows[0], rows[1])});
  kernels::cuda::full_attention(q, k, v, o, &lse);
  kernels::cuda::full_attention_backward(q, k, v, o, lse, dout, dq, dk, dv, workspace);
  const auto checked = [](const Tensor& tensor) {
    const Tensor got = cuda::download(tensor);
    const std::int64_t last = got.shape()[0] - 1;
    for (const std::int64_t band : {std::int64_t(0), last}) {
      const Tensor edge = got.row_range(band, 1);
      EXPECT_TRUE(std::all_of(edge.bytes(), edge.bytes() + edge.size_bytes(), [](std::byte byte) {
        return byte == std::byte(0xff);
      })) << "wrote outside";
    }
    return got.row_range(1, last - 1);
  };
  return {checked(outer.o), checked(outer.lse), checked(outer.dq), checked(outer.dk), checked(outer.dv)};
}

void expect_equal(const AttentionResult& expected, const AttentionResult& got) {
  const auto theirs = expected.parts(), ours = got.parts();
  for (std::size_t i = 0; i < theirs.size(); ++i)
    EXPECT_TRUE(bitwise_equal(*theirs[i].second, *ours[i].second)) << theirs[i].first;
}

struct FullAttentionBackwardCuda : testing::TestWithParam<AttentionRow> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
  AttentionProblem problem() const { return problem_of(GetParam()); }
};

TEST_P(FullAttentionBackwardCuda, equals_its_twin) { expect_equal(on_cpu(problem()), on_gpu(problem())); }

TEST_P(FullAttentionBackwardCuda, repeats_bitwise) {
  const AttentionProblem given = problem();
  const AttentionResult first = on_gpu(given);
  for (int repetition = 1; repetition < 10; ++repetition) expect_equal(first, on_gpu(given));
}

TEST_P(FullAttentionBackwardCuda, query_rows_do_not_see_each_other) {
  const AttentionProblem given = problem();
  const AttentionResult all = on_gpu(given);
  const std::int64_t rows = given.q.shape()[0];
  for (std::int64_t at = 0; at < rows; at += std::max<std::int64_t>(1, rows / 5)) {
    const AttentionResult alone =
        on_gpu({given.q.row_range(at, 1), given.k, given.v, given.dout.row_range(at, 1)});
    EXPECT_TRUE(bitwise_equal(all.dq.row_range(at, 1), alone.dq)) << at;
  }
}

constexpr AttentionRow kRows[] = {
    {128, 128, 2},
    {264, 264, 2},
    {1, 1, 1},
    {7, 400, 3},
    {520, 3, 1},
    {65, 129, 2, 1},
    {192, 257, 1},
    {130, 300, 70},  // more work than multiprocessors, the last rows few
    {63, 127, 1},
    {925, 925, 1},
    {70, 131, 1, 0, true},
    {200, 257, 2, 1, true},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, FullAttentionBackwardCuda, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

struct FullAttentionBackwardCudaProvider : testing::TestWithParam<const char*> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(FullAttentionBackwardCudaProvider, gives_the_same_bytes) { expect_recorded(GetParam(), on_gpu); }

INSTANTIATE_TEST_SUITE_P(rows_cuda, FullAttentionBackwardCudaProvider, testing::ValuesIn(kRecordedAttention),
                         [](const auto& info) { return std::string(info.param); });

// ---- bad input: refused on the host

struct FullAttentionBackwardCudaErrors : testing::TestWithParam<const char*> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(FullAttentionBackwardCudaErrors, are_found_on_the_host) {
  const AttentionProblem given = AttentionProblem::drawn("bad", 3, 5, 2, 0);
  const AttentionResult result = on_cpu(given);
  const auto up = [](const Tensor& tensor) { return cuda::upload(tensor); };
  const Tensor q = up(given.q), k = up(given.k), v = up(given.v), o = up(result.o), lse = up(result.lse),
               dout = up(given.dout);
  Tensor dq = up(result.dq), dk = up(result.dk), dv = up(result.dv),
         small = cuda::allocate(DType::fp32, {255}), workspace = cuda::allocate(DType::fp32, {512});
  const auto call = [&](const Tensor& dout_, Tensor& workspace_) {
    return error_of(
        [&] { kernels::cuda::full_attention_backward(q, k, v, o, lse, dout_, dq, dk, dv, workspace_); });
  };
  EXPECT_EQ(call(dout, workspace), "");
  EXPECT_NE(call(dout, small).find("full_attention_backward"), std::string::npos);
  EXPECT_NE(call(given.dout, workspace).find("full_attention_backward"), std::string::npos);
  cuda::synchronize();
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, FullAttentionBackwardCudaErrors, testing::Values("workspace_and_device"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3

#endif  // H3_HAVE_CUDA
