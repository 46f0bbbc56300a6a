// RFC rows h3_qk_rmsnorm_d128 and h3_mm_rope_3axis_partial in one launch, for q and k: the bytes of the two
// rows one after the other, with and without the normed heads kept.
#include "kernels/qk_norm_rope.h"

#include "conformance/rows/on_cuda.h"
#include "golden/mm_rope.h"
#include "golden/qk_norm.h"
#include "golden/rotary_tables.h"
#include "kernels/mm_rope.h"
#include "kernels/qk_norm.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using kernels::NormRope;

constexpr float kEps = 1e-5f;
constexpr std::int64_t kWidth = 128;

struct Operands {
  explicit Operands(const RowCase& row) {
    const Shape shape = {row.rows, row.cols / kWidth, kWidth};
    for (const char* name : {"q", "k"}) {
      x.push_back(synthetic_activation(row.seed, name, shape, DType::bf16, 3));
      weight.push_back(around_one(row.seed, fmt::format("{} weight", name), {kWidth}, DType::bf16));
    }
    const Tensor positions = synthetic_activation(row.seed, "positions", {row.rows, 3}, DType::fp64, 300);
    const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies());
    cos = tables.cos, sin = tables.sin;
  }
  std::vector<Tensor> x, weight;
  Tensor cos, sin;
};

struct QkNormRope : testing::TestWithParam<RowCase> {
  // One rounding of the norm, three of the rotation. y is the rotated q of even seeds, the rotated k of odd
  // ones; the other one is written, too. cols is heads * 128.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Operands given(row);
    const std::size_t which = row.seed % 2;
    return {
        {given.x[0], given.x[1], given.cos, given.sin},
        [weight = given.weight, which](const auto& operands, Tensor& y) {
          const Tensor other(DType::bf16, y.shape());
          kernels::qk_norm_rope({operands[0], weight[0], which ? other : y},
                                {operands[1], weight[1], which ? y : other}, kEps, operands[2], operands[3]);
        },
        golden::mm_rope(golden::qk_norm(given.x[which], given.weight[which], kEps), given.cos, given.sin),
        DType::bf16,
        after_roundings(4, DType::bf16),
        H3_ON_CUDA([weight = given.weight, which](const auto& operands, Tensor& y) {
          const Tensor other = cuda::allocate(DType::bf16, y.shape());
          kernels::cuda::qk_norm_rope({cuda::upload(operands[0]), cuda::upload(weight[0]), which ? other : y},
                                      {cuda::upload(operands[1]), cuda::upload(weight[1]), which ? y : other},
                                      kEps, cuda::upload(operands[2]), cuda::upload(operands[3]), nullptr);
          cuda::synchronize();  // before the operands go
        })};
  }
};

TEST_P(QkNormRope, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(QkNormRope, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(QkNormRope, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(QkNormRope, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(QkNormRope, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(QkNormRope, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

TEST_P(QkNormRope, equals_the_two_rows) {
  const Operands given(GetParam());
  std::vector<NormRope> parts;
  for (std::size_t i = 0; i < 2; ++i) {
    const Shape& shape = given.x[i].shape();
    parts.push_back({given.x[i], given.weight[i], Tensor(DType::bf16, shape), Tensor(DType::bf16, shape)});
  }
  kernels::qk_norm_rope(parts[0], parts[1], kEps, given.cos, given.sin);
  for (const NormRope& part : parts) {
    Tensor normed(DType::bf16, part.x.shape()), rotated(DType::bf16, part.x.shape());
    kernels::qk_norm(part.x, part.weight, kEps, normed);
    kernels::mm_rope(normed, given.cos, given.sin, rotated);
    EXPECT_TRUE(bitwise_equal(normed, part.normed));
    EXPECT_TRUE(bitwise_equal(rotated, part.rotated));
  }
}

constexpr RowCase kRows[] = {
    {"h3_qk_norm_rope", 264, 56 * 128, DType::bf16, 8},
    {"h3_qk_norm_rope", 71, 56 * 128, DType::bf16, 7},
    {"h3_qk_norm_rope", 33, 3 * 128, DType::bf16, 11},   // a warp with one head
    {"h3_qk_norm_rope", 17, 61 * 128, DType::bf16, 12},  // more heads than a block holds at once
};
INSTANTIATE_TEST_SUITE_P(rows, QkNormRope, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(QkNormRope, kRows);

#ifdef H3_HAVE_CUDA

struct QkNormRopeKept : testing::TestWithParam<RowCase> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(QkNormRopeKept, equals_the_two_kernels) {
  const Operands given(GetParam());
  const Tensor cos = cuda::upload(given.cos), sin = cuda::upload(given.sin);
  std::vector<NormRope> parts;
  for (std::size_t i = 0; i < 2; ++i) {
    const Shape& shape = given.x[i].shape();
    parts.push_back({cuda::upload(given.x[i]), cuda::upload(given.weight[i]),
                     cuda::allocate(DType::bf16, shape), cuda::allocate(DType::bf16, shape)});
  }
  kernels::cuda::qk_norm_rope(parts[0], parts[1], kEps, cos, sin, nullptr);
  for (const NormRope& part : parts) {
    Tensor normed = cuda::allocate(DType::bf16, part.x.shape()),
           rotated = cuda::allocate(DType::bf16, part.x.shape());
    kernels::cuda::qk_norm(part.x, part.weight, kEps, normed, nullptr);
    kernels::cuda::mm_rope(normed, cos, sin, rotated, nullptr);
    EXPECT_TRUE(bitwise_equal(cuda::download(normed), cuda::download(part.normed)));
    EXPECT_TRUE(bitwise_equal(cuda::download(rotated), cuda::download(part.rotated)));
  }
}
INSTANTIATE_TEST_SUITE_P(rows_cuda, QkNormRopeKept, testing::ValuesIn(on_cuda(kRows)), row_name);

#endif

// ---- bad input

struct QkNormRopeBadInput : testing::TestWithParam<BadInput> {};
TEST_P(QkNormRopeBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

NormRope of_ones(const Tensor& y) {
  return {filled(DType::bf16, y.shape(), 1), filled(DType::bf16, {y.cols()}, 1), y};
}

const BadInput kBad[] = {
    {"tables_wider_than_a_head",
     "mm_rope: 16 rotated channels in heads of 4",
     [](Tensor& y) {
       const Tensor table = filled(DType::fp32, {2, 16}, 1);
       kernels::qk_norm_rope(of_ones(y), of_ones(y.clone()), kEps, table, table);
     },
     DType::bf16,
     {2, 2, 4}},
    {"weight_of_another_dtype",
     "qk_norm: weight is fp32, expected bf16",
     [](Tensor& y) {
       const Tensor table = filled(DType::fp32, {2, 4}, 1);
       NormRope q = of_ones(y);
       q.weight = filled(DType::fp32, {4}, 1);
       kernels::qk_norm_rope(q, of_ones(y.clone()), kEps, table, table);
     },
     DType::bf16,
     {2, 2, 4}},
};
INSTANTIATE_TEST_SUITE_P(rows, QkNormRopeBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
