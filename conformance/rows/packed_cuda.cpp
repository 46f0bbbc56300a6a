// Sums, differences and products of elements in their own type (kernels/cuda/packed.cuh) are R of the FP32
// operation: all 2^32 pairs of words of each type, subnormals, infinities and NaN included.
#ifdef H3_HAVE_CUDA
#include "conformance/rows/on_cuda.h"
#include "kernels/cuda/arithmetic.h"

namespace h3 {
namespace {

struct PackedCuda : testing::TestWithParam<DType> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(PackedCuda, rounds_once_as_fp32_does) {
  const auto differing = cuda::packed_differences();
  EXPECT_EQ(GetParam() == DType::bf16 ? differing.bf16 : differing.fp16, 0u);
}
INSTANTIATE_TEST_SUITE_P(rows_cuda, PackedCuda, testing::Values(DType::bf16, DType::fp16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace h3
#endif
