// RFC row video_patch_pack_unpack: a permutation, and its inverse.
#include "kernels/video_patch_pack_unpack.h"

#include "conformance/rows/on_cuda.h"
#include "golden/video_patch_pack_unpack.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct VideoPatch : testing::TestWithParam<RowCase> {
  // Bit for bit. A row here is a batch item; cols is the number of latent channels.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor latents =
        synthetic_activation(row.seed, "latents", {row.rows, row.cols, 3, 4, 6}, DType::fp32);
    const Tensor rows = golden::video_patch_pack(latents);
    if (std::string(row.row) == "video_patch_pack")
      return {{latents},
              [](const auto& operands, Tensor& y) { kernels::video_patch_pack(operands[0], {}, y); },
              rows,
              DType::fp32,
              {},
              H3_ON_CUDA([](const auto& operands, Tensor& y) {
                kernels::cuda::video_patch_pack(cuda::upload(operands[0]), {}, y, nullptr);
              })};
    return {{rows},
            [](const auto& operands, Tensor& y) { kernels::video_patch_unpack(operands[0], {}, y); },
            latents,
            DType::fp32,
            {},
            H3_ON_CUDA([](const auto& operands, Tensor& y) {
              kernels::cuda::video_patch_unpack(cuda::upload(operands[0]), {}, y, nullptr);
            })};
  }
};

TEST_P(VideoPatch, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(VideoPatch, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(VideoPatch, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(VideoPatch, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(VideoPatch, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(VideoPatch, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"video_patch_pack", 3, 24, DType::fp32},
    {"video_patch_unpack", 3, 24, DType::fp32},
    {"video_patch_pack", 5, 4, DType::fp32, 11},
    {"video_patch_unpack", 5, 4, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, VideoPatch, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(VideoPatch, kRows);

// ---- bad input

struct VideoPatchBadInput : testing::TestWithParam<BadInput> {};
TEST_P(VideoPatchBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"odd_height", "video_patch_pack: latents are 1x2x1x3x2, expected multiples of the patch 1x2x2",
     [](Tensor& y) {
       kernels::video_patch_pack(filled(DType::fp32, {1, 2, 1, 3, 2}, 1), {}, y);
     },
     DType::fp32},
    {"rows_that_do_not_fit", "video_patch_pack: rows is 2x8, expected 1x1x8",
     [](Tensor& y) {
       kernels::video_patch_pack(filled(DType::fp32, {1, 2, 1, 2, 2}, 1), {}, y);
     },
     DType::fp32},
    {"no_batch_axis", "video_patch_unpack: latents is 2x8, expected 5 extents",
     [](Tensor& y) {
       kernels::video_patch_unpack(filled(DType::fp32, {1, 1, 8}, 1), {}, y);
     },
     DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, VideoPatchBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
