// RFC row timestep_sinusoid_h3: t in bf16, fp16 and fp32.
#include "kernels/timestep_sinusoid.h"

#include "conformance/rows/on_cuda.h"
#include "golden/timestep_sinusoid.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct TimestepSinusoid : testing::TestWithParam<RowCase> {
  // Angles are at most one radian: the FP32 angle errs by a few 2^-24, cosf and sinf by two units in the last
  // place. The RFC asks for 1e-5. The dtype is that of t.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    Tensor t(DType::fp32, {row.rows});
    for (std::int64_t u = 0; u < row.rows; ++u) t.data<float>()[u] = float(u) / float(row.rows - 1);
    t = t.to(row.dtype);
    return {{t},
            [](const auto& operands, Tensor& e) { kernels::timestep_sinusoid(operands[0], e); },
            golden::timestep_sinusoid(t.to(DType::fp32), row.cols),
            DType::fp32,
            Bound{.max_abs = 0x1.8p-22},
            H3_ON_CUDA([](const auto& operands, Tensor& e) {
              kernels::cuda::timestep_sinusoid(operands[0], e, nullptr);
            })};
  }
};

TEST_P(TimestepSinusoid, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(TimestepSinusoid, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(TimestepSinusoid, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(TimestepSinusoid, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(TimestepSinusoid, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(TimestepSinusoid, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"timestep_sinusoid_h3", 50, 256, DType::fp32},
    {"timestep_sinusoid_h3", 50, 256, DType::bf16},
    {"timestep_sinusoid_h3", 50, 256, DType::fp16},
    {"timestep_sinusoid_h3", 7, 8, DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, TimestepSinusoid, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(TimestepSinusoid, kRows);

// ---- values printed by the provider

struct PrintedRow {
  const char* name;
  double t;
  std::int64_t feature;
  float value;
};
void PrintTo(const PrintedRow& row, std::ostream* out) { *out << row.name; }

struct SinusoidValue : testing::TestWithParam<PrintedRow> {};

TEST_P(SinusoidValue, is_the_printed_one) {
  Tensor e(DType::fp32, {1, 256});
  kernels::timestep_sinusoid(listed(DType::fp32, {1}, {GetParam().t}), e);
  EXPECT_FLOAT_EQ(e.at(GetParam().feature), GetParam().value);
}

const PrintedRow kPrinted[] = {
    {"cosine_of_zero", 0, 127, 1},
    {"sine_of_zero", 0, 128, 0},
    {"quarter_first_cosine", 0.25, 0, 0.9689124f},
    {"quarter_third_cosine", 0.25, 2, 0.9766572f},
    {"quarter_first_sine", 0.25, 128, 0.24740396f},
    {"quarter_third_sine", 0.25, 130, 0.21480395f},
    {"one_second_cosine", 1, 1, 0.59737533f},
    {"one_first_sine", 1, 128, 0.841471f},
};
INSTANTIATE_TEST_SUITE_P(rows, SinusoidValue, testing::ValuesIn(kPrinted),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct TimestepSinusoidBadInput : testing::TestWithParam<BadInput> {};
TEST_P(TimestepSinusoidBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"scaled_by_a_thousand", "timestep_sinusoid: t[1] is 250, expected 0..1",
     [](Tensor& e) {
       kernels::timestep_sinusoid(listed(DType::fp32, {2}, {0, 250}), e);
     },
     DType::fp32},
    {"negative", "timestep_sinusoid: t[0] is -0.5, expected 0..1",
     [](Tensor& e) {
       kernels::timestep_sinusoid(listed(DType::fp32, {2}, {-0.5, 0}), e);
     },
     DType::fp32},
    {"not_a_number", "timestep_sinusoid: t[0] is nan, expected 0..1",
     [](Tensor& e) {
       kernels::timestep_sinusoid(listed(DType::fp32, {2}, {NAN, 0}), e);
     },
     DType::fp32},
    {"fp64", "timestep_sinusoid: t is fp64, expected fp32 or bf16 or fp16",
     [](Tensor& e) { kernels::timestep_sinusoid(filled(DType::fp64, {2}, 0), e); }, DType::fp32},
    {"rounded_output", "timestep_sinusoid: e is bf16, expected fp32",
     [](Tensor& e) { kernels::timestep_sinusoid(filled(DType::fp32, {2}, 0), e); }},
};
INSTANTIATE_TEST_SUITE_P(rows, TimestepSinusoidBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
