// RFC row h3_swiglu: value first, gate second.
#include "kernels/swiglu.h"

#include "conformance/rows/on_cuda.h"
#include "golden/swiglu.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct Swiglu : testing::TestWithParam<RowCase> {
  // Two roundings: silu and product. cols is F, half the width of the input.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, 2 * row.cols}, DType::bf16, 2, true);
    return {{x},
            [](const auto& operands, Tensor& h) { kernels::swiglu(operands[0], h); },
            golden::swiglu(x),
            DType::bf16,
            after_roundings(2, DType::bf16),
            H3_ON_CUDA([](const auto& operands, Tensor& h) {
              kernels::cuda::swiglu(cuda::upload(operands[0]), h, nullptr);
            })};
  }
};

TEST_P(Swiglu, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(Swiglu, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(Swiglu, rows_alone_equal_rows_in_a_batch) { EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem())); }
TEST_P(Swiglu, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(Swiglu, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(Swiglu, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_swiglu", 264, 14336},
    {"h3_swiglu", 71, 24, DType::bf16, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, Swiglu, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(Swiglu, kRows);

// ---- which half is the gate, and what silu does at the ends

struct HalfRow {
  const char* name;
  double value, gate;
  double h;
};
void PrintTo(const HalfRow& row, std::ostream* out) { *out << row.name; }

struct SwigluHalves : testing::TestWithParam<HalfRow> {};

TEST_P(SwigluHalves, give_the_known_value) {
  Tensor h(DType::bf16, {1, 1});
  kernels::swiglu(listed(DType::bf16, {1, 2}, {GetParam().value, GetParam().gate}), h);
  EXPECT_TRUE(bitwise_equal(filled(DType::bf16, {1, 1}, GetParam().h), h));
}

const HalfRow kHalves[] = {
    {"gate_open", 3, 64, 192},       // silu(64) = 64
    {"gate_closed", 3, -200, -0.0},  // -200 / (1 + inf)
    {"gate_zero", 3, 0, 0},
    {"value_zero", 0, 3, 0},
    {"silu_of_one_is_rounded_first", 0x1.fep0, 1,
     0x1.74p0},  // R(0.731) = 0.73046875; times 1.9921875 = 1.4552
};
INSTANTIATE_TEST_SUITE_P(rows, SwigluHalves, testing::ValuesIn(kHalves),
                         [](const auto& info) { return info.param.name; });

// ---- backward

// Two roundings on the way to either half: silu and product, product and derivative.
struct SwigluBackward : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, 2 * row.cols}, DType::bf16, 2, true);
    const Tensor dh = synthetic_activation(row.seed, "dh", {row.rows, row.cols}, DType::bf16);
    return {{dh, x},
            [](const auto& operands, Tensor& dx) { kernels::swiglu_backward(operands[1], operands[0], dx); },
            golden::swiglu_backward(x, dh),
            DType::bf16,
            after_roundings(2, DType::bf16),
            H3_ON_CUDA([](const auto& operands, Tensor& dx) {
              kernels::cuda::swiglu_backward(cuda::upload(operands[1]), cuda::upload(operands[0]), dx,
                                             nullptr);
            })};
  }
};
H3_ROW_CLAIMS(SwigluBackward)
INSTANTIATE_TEST_SUITE_P(rows, SwigluBackward, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(SwigluBackward, kRows);

struct SlopeRow {
  const char* name;
  double value, gate, dh;
  double dvalue, dgate;
};
void PrintTo(const SlopeRow& row, std::ostream* out) { *out << row.name; }

struct SwigluSlope : testing::TestWithParam<SlopeRow> {};

TEST_P(SwigluSlope, gives_the_known_value) {
  const SlopeRow& row = GetParam();
  Tensor dx(DType::bf16, {1, 2});
  kernels::swiglu_backward(listed(DType::bf16, {1, 2}, {row.value, row.gate}),
                           filled(DType::bf16, {1, 1}, row.dh), dx);
  EXPECT_TRUE(bitwise_equal(listed(DType::bf16, {1, 2}, {row.dvalue, row.dgate}), dx));
}

const SlopeRow kSlopes[] = {
    {"gate_open", 3, 64, 2, 128, 6},  // silu(64) = 64, its slope 1
    {"gate_zero", 3, 0, 2, 0, 3},     // the slope is 1/2
    {"value_zero", 0, 64, 2, 128, 0},
    {"nothing_comes_back", 3, 64, 0, 0, 0},
};
INSTANTIATE_TEST_SUITE_P(rows, SwigluSlope, testing::ValuesIn(kSlopes),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct SwigluBadInput : testing::TestWithParam<BadInput> {};
TEST_P(SwigluBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"odd_width", "swiglu: x is 2x15, expected an even width",
     [](Tensor& h) {
       kernels::swiglu(filled(DType::bf16, {2, 15}, 1), h);
     }},
    {"fp32", "swiglu: x is fp32, expected bf16",
     [](Tensor& h) {
       kernels::swiglu(filled(DType::fp32, {2, 16}, 1), h);
     }},
    {"output_of_the_full_width", "swiglu: h is 2x8, expected 2x4",
     [](Tensor& h) {
       kernels::swiglu(filled(DType::bf16, {2, 8}, 1), h);
     }},
    {"gradient_of_the_full_width",
     "swiglu_backward: dh is 2x16, expected 2x8",
     [](Tensor& dx) {
       kernels::swiglu_backward(filled(DType::bf16, {2, 16}, 1), filled(DType::bf16, {2, 16}, 1), dx);
     },
     DType::bf16,
     {2, 16}},
};
INSTANTIATE_TEST_SUITE_P(rows, SwigluBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
