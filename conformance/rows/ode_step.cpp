// RFC row h3_ode_step: one Euler step of fp32, bf16 and fp16 rows, each with its own sigma.
#include "kernels/ode_step.h"

#include "conformance/rows/on_cuda.h"
#include "golden/ode_step.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct OdeStep : testing::TestWithParam<RowCase> {
  // Eight roundings to FP32, and one to the type of the rows.
  static RowProblem problem() {
    const RowCase& row = GetParam();
    const Tensor x = synthetic_activation(row.seed, "x", {row.rows, row.cols}, row.dtype);
    const Tensor v = synthetic_activation(row.seed, "v", {row.rows, row.cols}, row.dtype);
    Tensor t(DType::fp32, {row.rows}), from(DType::fp32, {row.rows}), to(DType::fp32, {row.rows});
    Tensor golden(DType::fp32, x.shape());
    for (std::int64_t s = 0; s < row.rows; ++s) {
      from.data<float>()[s] = float(row.rows - s) / float(row.rows);
      to.data<float>()[s] = s % 5 == 4 ? 0 : from.data<float>()[s] * 0.75f;
      t.data<float>()[s] = 1 - from.data<float>()[s];
      Tensor line = golden.row_range(s, 1);
      const Tensor step = golden::ode_step(x.row_range(s, 1).to(DType::fp32),
                                           v.row_range(s, 1).to(DType::fp32), t.at(s), from.at(s), to.at(s));
      std::ranges::copy(step.values<float>(), line.data<float>());
    }
    return {{x, v, t, from, to},
            [](const auto& operands, Tensor& y) {
              kernels::ode_step(operands[0], operands[1], operands[2], operands[3], operands[4], y);
            },
            golden,
            row.dtype,
            after_roundings(row.dtype == DType::fp32 ? 8 : 1, row.dtype),
            H3_ON_CUDA([](const auto& operands, Tensor& y) {
              kernels::cuda::ode_step(cuda::upload(operands[0]), cuda::upload(operands[1]), operands[2],
                                      operands[3], operands[4], y, nullptr);
            })};
  }
};

TEST_P(OdeStep, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }
TEST_P(OdeStep, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }
TEST_P(OdeStep, rows_alone_equal_rows_in_a_batch) {
  EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));
}
TEST_P(OdeStep, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); }
TEST_P(OdeStep, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); }
TEST_P(OdeStep, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }

constexpr RowCase kRows[] = {
    {"h3_ode_step", 264, 96, DType::fp32},    {"h3_ode_step", 74, 32, DType::fp32},
    {"h3_ode_step", 264, 96, DType::bf16},    {"h3_ode_step", 264, 96, DType::fp16},
    {"h3_ode_step", 71, 24, DType::fp32, 11},
};
INSTANTIATE_TEST_SUITE_P(rows, OdeStep, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(OdeStep, kRows);

// ---- the provider's own schedule: N = 5, shift 12, x = 2, v = 0.5 throughout

struct StepRow {
  const char* name;
  double x, t, sigma, sigma_next;
  float next;
};
void PrintTo(const StepRow& row, std::ostream* out) { *out << row.name; }

void step(double t, double sigma, double sigma_next, Tensor& y) {
  const Tensor x = filled(DType::fp32, y.shape(), 2), v = filled(DType::fp32, y.shape(), 0.5);
  kernels::ode_step(x, v, filled(DType::fp32, {1}, t), filled(DType::fp32, {1}, sigma),
                    filled(DType::fp32, {1}, sigma_next), y);
}

struct OdeStepValue : testing::TestWithParam<StepRow> {};

TEST_P(OdeStepValue, is_the_printed_one) {
  const StepRow& row = GetParam();
  const Tensor x = filled(DType::fp32, {3, 2}, row.x), v = filled(DType::fp32, {3, 2}, 0.5);
  Tensor y(DType::fp32, {3, 2});
  kernels::ode_step(x, v, filled(DType::fp32, {1}, row.t), filled(DType::fp32, {1}, row.sigma),
                    filled(DType::fp32, {1}, row.sigma_next), y);
  EXPECT_TRUE(bitwise_equal(filled(DType::fp32, {3, 2}, row.next), y));
}

const StepRow kSteps[] = {
    {"first", 2, 0, 1, 0.972972989f, 2.01351357f},
    {"second", 2.01351357f, 0.0270270109f, 0.972972989f, 0.923076928f, 2.03846169f},
    {"third", 2.03846169f, 0.0769230723f, 0.923076928f, 0.800000012f, 2.10000014f},
    {"last", 2.10000014f, 0.199999988f, 0.800000012f, 0, 2.50000024f},
};
INSTANTIATE_TEST_SUITE_P(rows, OdeStepValue, testing::ValuesIn(kSteps),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct OdeStepBadInput : testing::TestWithParam<BadInput> {};
TEST_P(OdeStepBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"sigma_zero", "ode_step: sigma of row 0 is 0, expected above 0", [](Tensor& y) { step(0.5, 0, 0, y); },
     DType::fp32},
    {"rising_sigma", "ode_step: sigma_next of row 0 is 0.75, expected 0..0.5",
     [](Tensor& y) { step(0.5, 0.5, 0.75, y); }, DType::fp32},
    {"negative_next", "ode_step: sigma_next of row 0 is -0.25", [](Tensor& y) { step(0.5, 0.5, -0.25, y); },
     DType::fp32},
    {"timestep_scaled", "ode_step: timestep of row 0 is 500, expected 0..1",
     [](Tensor& y) { step(500, 0.5, 0.25, y); }, DType::fp32},
    {"not_a_number", "ode_step: sigma of row 0 is nan", [](Tensor& y) { step(0.5, NAN, 0.25, y); },
     DType::fp32},
    {"one_sigma_too_many", "ode_step: sigma has 3 elements, expected 1 or 2",
     [](Tensor& y) {
       const Tensor x = filled(DType::fp32, {2, 8}, 1), one = filled(DType::fp32, {1}, 0.5);
       kernels::ode_step(x, x, one, filled(DType::fp32, {3}, 0.5), one, y);
     },
     DType::fp32},
    {"velocity_of_another_dtype", "ode_step: velocity is bf16, expected fp32",
     [](Tensor& y) {
       const Tensor x = filled(DType::fp32, {2, 8}, 1), one = filled(DType::fp32, {1}, 0.5);
       kernels::ode_step(x, x.to(DType::bf16), one, one, one, y);
     },
     DType::fp32},
};
INSTANTIATE_TEST_SUITE_P(rows, OdeStepBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
