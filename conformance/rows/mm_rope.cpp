// RFC row h3_mm_rope_3axis_partial: the rotation, given its tables.
#include "kernels/mm_rope.h"

#include "conformance/rows/on_cuda.h"
#include "golden/mm_rope.h"
#include "golden/rotary_tables.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct MmRope : testing::TestWithParam<RowCase> {
  // The tables are rounded, each product is, and the sum: three roundings on the way of each of the two terms
  // and one of the result, on three quarters of the channels. cols is heads * 128.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "q", {row.rows, row.cols / 128, 128}, DType::bf16);
    const Tensor positions = synthetic_activation(row.seed, "positions", {row.rows, 3}, DType::fp64, 300);
    const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies());
    return {
        {x, tables.cos, tables.sin},
        [](const auto& operands, Tensor& y) { kernels::mm_rope(operands[0], operands[1], operands[2], y); },
        golden::mm_rope(x, tables.cos, tables.sin),
        DType::bf16,
        after_roundings(3, DType::bf16),
        H3_ON_CUDA([](const auto& operands, Tensor& y) {
          kernels::cuda::mm_rope(cuda::upload(operands[0]), cuda::upload(operands[1]),
                                 cuda::upload(operands[2]), y, nullptr);
        })};
  }
};

TEST_P(MmRope, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(MmRope, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(MmRope, rows_alone_equal_rows_in_a_batch) { EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem())); }
TEST_P(MmRope, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(MmRope, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(MmRope, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_mm_rope_3axis_partial", 264, 56 * 128},
    {"h3_mm_rope_3axis_partial", 71, 3 * 128, DType::bf16, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, MmRope, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(MmRope, kRows);

#ifdef H3_HAVE_CUDA

// ---- heads of other shapes than the model's, on the GPU: some lie in lanes, others do not

struct HeadShape {
  std::int64_t heads, width, rotated;
};
void PrintTo(const HeadShape& row, std::ostream* out) {
  *out << row.heads << "_heads_of_" << row.width << "_rotating_" << row.rotated;
}

struct RopeHeadShape : testing::TestWithParam<HeadShape> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(RopeHeadShape, equals_the_twin_both_ways) {
  const auto [heads, width, rotated] = GetParam();
  constexpr std::int64_t kPacked = 9;
  const Shape shape = {kPacked, heads, width};
  const Tensor x = synthetic_activation(3, "x", shape, DType::bf16),
               cos = synthetic_activation(3, "cos", {kPacked, rotated}, DType::fp32),
               sin = synthetic_activation(3, "sin", {kPacked, rotated}, DType::fp32);
  const Tensor on_gpu[] = {cuda::upload(x), cuda::upload(cos), cuda::upload(sin)};
  Tensor expected(DType::bf16, shape), y = cuda::allocate(DType::bf16, shape);
  kernels::mm_rope(x, cos, sin, expected);
  kernels::cuda::mm_rope(on_gpu[0], on_gpu[1], on_gpu[2], y, nullptr);
  EXPECT_TRUE(bitwise_equal(expected, cuda::download(y)));
  cuda::poison(y);
  kernels::mm_rope_backward(x, cos, sin, expected);
  kernels::cuda::mm_rope_backward(on_gpu[0], on_gpu[1], on_gpu[2], y, nullptr);
  EXPECT_TRUE(bitwise_equal(expected, cuda::download(y))) << "backward";
}

constexpr HeadShape kHeadShapes[] = {
    {61, 128, 96},  // more heads than a block holds at once
    {5, 72, 48},    // lanes without a channel
    {3, 128, 128},  // every channel turns
    {3, 128, 100},  // halves that are not whole lanes
    {3, 10, 6},     // heads that are not
    {2, 160, 96},   // more channels than lanes hold
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, RopeHeadShape, testing::ValuesIn(kHeadShapes),
                         [](const auto& info) { return testing::PrintToString(info.param); });

#endif

// ---- which channel turns with which

struct PartnerRow {
  const char* name;
  std::int64_t channel;  // the only one that is not zero: 1
  std::int64_t partner;  // where the sine goes; -1: the channel passes through
  double partner_sign;
};
void PrintTo(const PartnerRow& row, std::ostream* out) { *out << row.name; }

struct RopePartner : testing::TestWithParam<PartnerRow> {};

TEST_P(RopePartner, turns_with_its_partner_alone) {
  const PartnerRow& row = GetParam();
  Tensor x = filled(DType::bf16, {1, 1, 128}, 0);
  x.data<Bf16>()[row.channel] = to_bf16(1);
  Tensor cos(DType::fp32, {1, 96}), sin(DType::fp32, {1, 96}), y(DType::bf16, {1, 1, 128});
  for (std::int64_t i = 0; i < 96; ++i) {
    cos.data<float>()[i] = float(i % 48 + 1) / 64;
    sin.data<float>()[i] = float(i % 48 + 2) / 128;
  }
  kernels::mm_rope(x, cos, sin, y);
  for (std::int64_t i = 0; i < 128; ++i) {
    double expected = 0;
    if (i == row.channel) expected = row.partner < 0 ? 1 : double(i % 48 + 1) / 64;
    if (i == row.partner) expected = row.partner_sign * double(i % 48 + 2) / 128;
    EXPECT_EQ(y.at(i), expected) << "channel " << i;
  }
}

const PartnerRow kPartners[] = {
    {"first", 0, 48, 1},          {"last_of_the_first_half", 47, 95, 1}, {"second_half", 48, 0, -1},
    {"last_rotated", 95, 47, -1}, {"first_passed", 96, -1, 0},           {"last_passed", 127, -1, 0},
};
INSTANTIATE_TEST_SUITE_P(rows, RopePartner, testing::ValuesIn(kPartners),
                         [](const auto& info) { return info.param.name; });

// ---- backward: roundings as forward

struct MmRopeBackward : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor dy = synthetic_activation(row.seed, "dq", {row.rows, row.cols / 128, 128}, DType::bf16);
    const Tensor positions = synthetic_activation(row.seed, "positions", {row.rows, 3}, DType::fp64, 300);
    const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies());
    return {{dy, tables.cos, tables.sin},
            [](const auto& operands, Tensor& dx) {
              kernels::mm_rope_backward(operands[0], operands[1], operands[2], dx);
            },
            golden::mm_rope_backward(dy, tables.cos, tables.sin),
            DType::bf16,
            after_roundings(3, DType::bf16),
            H3_ON_CUDA([](const auto& operands, Tensor& dx) {
              kernels::cuda::mm_rope_backward(cuda::upload(operands[0]), cuda::upload(operands[1]),
                                              cuda::upload(operands[2]), dx, nullptr);
            })};
  }
};
H3_ROW_CLAIMS(MmRopeBackward)
INSTANTIATE_TEST_SUITE_P(rows, MmRopeBackward, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(MmRopeBackward, kRows);

// Backward is the transposed matrix, element by element. Every element of the tables is another: the sine
// that comes back from a channel is the one that took it there.
struct MmRopeTransposed : testing::TestWithParam<std::int64_t> {};  // rotated channels of a head of 128

TEST_P(MmRopeTransposed, moves_what_forward_moved) {
  Tensor cos(DType::fp32, {1, GetParam()}), sin(DType::fp32, {1, GetParam()});
  for (std::int64_t i = 0; i < GetParam(); ++i) {
    cos.data<float>()[i] = float(i + 1) / 128;
    sin.data<float>()[i] = float(i + 3) / 256;
  }
  Tensor forward(DType::bf16, {128, 128}), back(DType::bf16, {128, 128});
  for (std::int64_t channel = 0; channel < 128; ++channel) {
    Tensor unit = filled(DType::bf16, {1, 1, 128}, 0);
    unit.data<Bf16>()[channel] = to_bf16(1);
    Tensor y = forward.row_range(channel, 1).reshaped({1, 1, 128});
    Tensor dx = back.row_range(channel, 1).reshaped({1, 1, 128});
    kernels::mm_rope(unit, cos, sin, y);
    kernels::mm_rope_backward(unit, cos, sin, dx);
  }
  for (std::int64_t i = 0; i < 128; ++i)
    for (std::int64_t j = 0; j < 128; ++j)
      EXPECT_EQ(forward.at(i * 128 + j), back.at(j * 128 + i)) << "channel " << i << " to " << j;
}

INSTANTIATE_TEST_SUITE_P(rows, MmRopeTransposed, testing::Values(96, 12, 128),
                         [](const auto& info) { return std::to_string(info.param) + "_channels"; });

// ---- bad input

struct MmRopeBadInput : testing::TestWithParam<BadInput> {};
TEST_P(MmRopeBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"tables_wider_than_a_head", "mm_rope: 16 rotated channels in heads of 4",
     [](Tensor& y) {
       const Tensor table = filled(DType::fp32, {2, 16}, 1);
       kernels::mm_rope(filled(DType::bf16, {2, 2, 4}, 1), table, table, y);
     }},
    {"tables_of_another_length", "mm_rope: sin is 1x4, expected 2x4",
     [](Tensor& y) {
       kernels::mm_rope(filled(DType::bf16, {2, 2, 4}, 1), filled(DType::fp32, {2, 4}, 1),
                        filled(DType::fp32, {1, 4}, 1), y);
     }},
    {"tables_already_rounded", "mm_rope: cos is bf16, expected fp32",
     [](Tensor& y) {
       const Tensor table = filled(DType::bf16, {2, 4}, 1);
       kernels::mm_rope(filled(DType::bf16, {2, 2, 4}, 1), table, table, y);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, MmRopeBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
