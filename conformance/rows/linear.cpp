// RFC rows h3_qkv_gemm, h3_attention_o_gemm, h3_ffn_gate_up_gemm, h3_ffn_down_gemm, and the projections with
// a bias: forward, dX, dW.
#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>

#include "conformance/operands.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "golden/linear.h"
#include "kernels/numerics/chain.h"

namespace h3 {
namespace {

enum class Form { forward, dx, dw };

struct LinearRow {
  const char* row;
  Form form;
  std::int64_t rows, inputs, outputs;
  bool bias = false;
};
std::string name_of(const LinearRow& row) {
  const char* form[] = {"forward", "dx", "dw"};
  return fmt::format("{}_{}_{}x{}x{}{}", row.row, form[int(row.form)], row.rows, row.inputs, row.outputs,
                     row.bias ? "_bias" : "");
}
void PrintTo(const LinearRow& row, std::ostream* out) { *out << name_of(row); }

// The product of a row: left (M,depth), right (N,depth) as the chain reads them, and the kernel itself.
struct Linear : testing::TestWithParam<LinearRow> {
  using Fill = std::function<Tensor(const std::string& name, const Shape& shape)>;

  void fill(const Fill& make) {
    const LinearRow& row = GetParam();
    const Tensor x = make("x", {row.rows, row.inputs}), weight = make("weight", {row.outputs, row.inputs}),
                 dy = make("dy", {row.rows, row.outputs});
    left = row.form == Form::forward ? x : dy;
    right = row.form == Form::dw ? x : weight;
    if (row.bias) bias = make("bias", {row.outputs});
  }
  void SetUp() override {
    fill([](const std::string& name, const Shape& shape) {
      return normal_operand("linear." + name, shape, name == "weight" ? -6 : 0);
    });
  }

  Shape result_shape() const {
    const LinearRow& row = GetParam();
    if (row.form == Form::forward) return {row.rows, row.outputs};
    return {row.form == Form::dx ? row.rows : row.outputs, row.inputs};
  }
  void run(const Tensor& l, const Tensor& r, Tensor& y) const {
    switch (GetParam().form) {
      case Form::forward:
        return kernels::linear(l, r, GetParam().bias ? &bias : nullptr, y);
      case Form::dx:
        return kernels::linear_input_gradient(l, r, y);
      case Form::dw:
        return kernels::linear_weight_gradient(l, r, y);
    }
  }
  Tensor result(DType dtype) const {
    Tensor y(dtype, result_shape());
    run(left, right, y);
    return y;
  }
  numerics::Operand left_operand() const {
    return GetParam().form == Form::dw ? numerics::columns_of(left) : numerics::rows_of(left);
  }
  numerics::Operand right_operand() const {
    return GetParam().form == Form::forward ? numerics::rows_of(right) : numerics::columns_of(right);
  }
  // Every result row comes from one row of `left`: true of y and dX.
  bool has_rows() const { return GetParam().form != Form::dw; }

  Tensor left, right, bias;
};

testing::AssertionResult same_bytes(const Tensor& expected, const Tensor& got) {
  if (expected.dtype() != got.dtype() || expected.shape() != got.shape())
    return testing::AssertionFailure() << "shapes or types differ";
  std::int64_t differing = 0, first = 0;
  const std::size_t size = size_of(got.dtype());
  for (std::int64_t i = 0; i < got.elements(); ++i)
    if (!std::equal(expected.bytes() + std::size_t(i) * size, expected.bytes() + std::size_t(i + 1) * size,
                    got.bytes() + std::size_t(i) * size) &&
        differing++ == 0)
      first = i;
  if (differing == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format("{} of {} differ; first at {}: expected {}, got {}",
                                                    differing, got.elements(), first, expected.at(first),
                                                    got.at(first));
}

TEST_P(Linear, is_the_chain_rounded_once) {
  const Tensor y = result(DType::bf16), sum = result(DType::fp32);
  Tensor expected(DType::fp32, result_shape());
  numerics::chain_reference(left_operand(), right_operand(), nullptr, expected.data<float>(),
                            expected.cols());
  if (GetParam().bias)
    for (std::int64_t i = 0; i < expected.elements(); ++i)
      expected.data<float>()[i] += bias.at(i % expected.cols());
  EXPECT_TRUE(same_bytes(expected, sum));
  EXPECT_TRUE(same_bytes(expected.to(DType::bf16), y));
}

TEST_P(Linear, is_exact_on_integers) {
  fill([](const std::string& name, const Shape& shape) {
    return integer_operand("linear." + name, shape, 50);
  });
  const Tensor sum = result(DType::fp32);
  const auto a = left_operand(), b = right_operand();
  for (std::int64_t i = 0; i < sum.elements(); ++i) {
    std::int64_t expected = GetParam().bias ? std::int64_t(bias.at(i % sum.cols())) : 0;
    for (std::int64_t k = 0; k < a.depth; ++k)
      expected += std::int64_t(to_float(a.data[i / sum.cols() * a.row_stride + k * a.depth_stride])) *
                  std::int64_t(to_float(b.data[i % sum.cols() * b.row_stride + k * b.depth_stride]));
    ASSERT_EQ(sum.data<float>()[i], float(expected)) << i;
  }
}

// A step drops less than 2^-25 of its largest term from each of 17 terms and less than 2^-23 of its sum;
// every term and sum is at most the sum of magnitudes A. Bias and golden round by at most 2^-24 of A, BF16 by
// at most 2^-8 of y.
TEST_P(Linear, matches_golden) {
  const auto gathered = [](const numerics::Operand& operand, bool magnitudes) {
    Tensor tensor(DType::bf16, {operand.rows, operand.depth});
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const Bf16 word =
          operand.data[i / operand.depth * operand.row_stride + i % operand.depth * operand.depth_stride];
      tensor.data<Bf16>()[i] = magnitudes ? Bf16(std::uint16_t(word) & 0x7fff) : word;
    }
    return tensor;
  };
  const auto a = left_operand(), b = right_operand();
  const Tensor* terms = GetParam().bias ? &bias : nullptr;
  const Tensor golden = golden::linear(gathered(a, false), gathered(b, false), terms);
  const Tensor magnitudes = golden::linear(gathered(a, true), gathered(b, true), nullptr);
  const Tensor sum = result(DType::fp32), y = result(DType::bf16);
  const double steps = double(a.depth + 15) / 16, per_step = 17 * 0x1p-25 + 0x1p-23;
  double worst = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const double truth = golden.at(i),
                 size = magnitudes.at(i) + (terms ? std::abs(bias.at(i % y.cols())) : 0);
    const double error = std::abs(sum.at(i) - truth);
    worst = std::max(worst, error / size);
    ASSERT_LE(error, (steps * per_step + 0x1p-23) * size) << i;
    ASSERT_LE(std::abs(y.at(i) - truth), 0x1p-8 * std::abs(truth) + (steps * per_step + 0x1p-23) * size) << i;
  }
  EXPECT_GT(worst, 0) << "a comparison of something with itself";
}

TEST_P(Linear, rows_do_not_see_each_other) {
  if (!has_rows()) {
    const Tensor y = result(DType::bf16);  // a row of dW sees one output channel of dy
    Tensor channel(DType::bf16, {left.rows(), 1}), row(DType::bf16, {1, right.cols()});
    for (const std::int64_t at : {std::int64_t(0), y.rows() - 1}) {
      for (std::int64_t i = 0; i < left.rows(); ++i)
        channel.data<Bf16>()[i] = left.data<Bf16>()[i * left.cols() + at];
      run(channel, right, row);
      EXPECT_TRUE(same_bytes(y.row_range(at, 1), row)) << at;
    }
    return;
  }
  const Tensor y = result(DType::bf16);
  for (std::int64_t at = 0; at < y.rows(); at += std::max<std::int64_t>(1, y.rows() / 5)) {
    Tensor row(DType::bf16, {1, y.cols()});
    run(left.row_range(at, 1), right, row);
    EXPECT_TRUE(same_bytes(y.row_range(at, 1), row)) << at;
  }
}

TEST_P(Linear, permuted_rows_permute_the_result) {
  // dW adds up the rows, so a permutation may change it, and nothing is promised; its result rows may be
  // permuted.
  const auto reversed = [](const Tensor& tensor, bool columns) {
    Tensor turned(tensor.dtype(), tensor.shape());
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t row = i / tensor.cols(), col = i % tensor.cols();
      turned.data<Bf16>()[i] = columns ? tensor.data<Bf16>()[row * tensor.cols() + tensor.cols() - 1 - col]
                                       : tensor.data<Bf16>()[(tensor.rows() - 1 - row) * tensor.cols() + col];
    }
    return turned;
  };
  Tensor y(DType::bf16, result_shape());
  run(reversed(left, !has_rows()), right, y);
  EXPECT_TRUE(same_bytes(result(DType::bf16), reversed(y, false)));
}

TEST_P(Linear, repeats_bitwise_and_stays_inside_its_output) {
  const Tensor y = result(DType::bf16);
  Tensor wide(DType::bf16, {y.rows() + 2, y.cols()});
  Tensor inner = wide.row_range(1, y.rows());
  run(left, right, inner);
  EXPECT_TRUE(same_bytes(y, inner));
  const Tensor poison(DType::bf16, {1, y.cols()});
  EXPECT_TRUE(same_bytes(poison, wide.row_range(0, 1)));
  EXPECT_TRUE(same_bytes(poison, wide.row_range(y.rows() + 1, 1)));
}

constexpr LinearRow kRows[] = {
    {"h3_qkv_gemm", Form::forward, 40, 1072, 136},
    {"h3_qkv_gemm", Form::forward, 1, 168, 56},
    {"h3_attention_o_gemm", Form::forward, 5, 1433, 107},  // no extent fits a tile or a step
    {"h3_ffn_gate_up_gemm", Form::forward, 33, 336, 573},
    {"h3_ffn_down_gemm", Form::forward, 1027, 48, 21},  // more rows than are summed at once
    {"adaln_projection_3mod", Form::forward, 3, 168, 576, true},
    {"final_adaln_out", Form::forward, 66, 320, 100, true},
    {"h3_qkv_gemm", Form::dx, 40, 107, 448},
    {"h3_ffn_down_gemm", Form::dx, 1027, 40, 30},
    {"h3_qkv_gemm", Form::dw, 264, 107, 80},
    {"h3_ffn_down_gemm", Form::dw, 37, 40, 1030},
};
INSTANTIATE_TEST_SUITE_P(rows, Linear, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

// ---- bad input

struct BadInput {
  const char* name;
  std::function<void()> call;
  const char* message;
};
void PrintTo(const BadInput& row, std::ostream* out) { *out << row.name; }

struct LinearErrors : testing::TestWithParam<BadInput> {};

TEST_P(LinearErrors, are_one_line) {
  try {
    GetParam().call();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

Tensor bf16(const Shape& shape) { return Tensor(DType::bf16, shape); }
Tensor fp32(const Shape& shape) { return Tensor(DType::fp32, shape); }
void forward(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor y) {
  kernels::linear(x, weight, bias, y);
}

const BadInput kBadInputs[] = {
    {"x_of_another_type",
     [] {
       forward(fp32({2, 8}), bf16({4, 8}), nullptr, bf16({2, 4}));
     },
     "linear: x: fp32, expected bf16"},
    {"nothing_at_all",
     [] {
       forward({}, bf16({4, 8}), nullptr, bf16({2, 4}));
     },
     "linear: x: shape scalar, expected a non-empty matrix"},
    {"no_rows",
     [] {
       forward(bf16({0, 8}), bf16({4, 8}), nullptr, bf16({0, 4}));
     },
     "linear: x: shape 0x8, expected a non-empty matrix"},
    {"inputs_that_differ",
     [] {
       forward(bf16({2, 8}), bf16({4, 9}), nullptr, bf16({2, 4}));
     },
     "linear: weight has 9 inputs, x has 8"},
    {"a_bias_that_is_too_short",
     [] {
       const Tensor bias = bf16({3});
       forward(bf16({2, 8}), bf16({4, 8}), &bias, bf16({2, 4}));
     },
     "linear: bias: shape 3, expected 4"},
    {"a_bias_of_another_type",
     [] {
       const Tensor bias = fp32({4});
       forward(bf16({2, 8}), bf16({4, 8}), &bias, bf16({2, 4}));
     },
     "linear: bias: fp32, expected bf16"},
    {"a_result_that_does_not_fit",
     [] {
       forward(bf16({2, 8}), bf16({4, 8}), nullptr, bf16({2, 5}));
     },
     "linear: y: shape 2x5, expected 2 rows of 4"},
    {"a_result_of_another_type",
     [] {
       forward(bf16({2, 8}), bf16({4, 8}), nullptr, Tensor(DType::fp16, {2, 4}));
     },
     "linear: y: fp16, expected bf16 or fp32"},
    {"dx_with_other_outputs",
     [] {
       Tensor dx = bf16({2, 8});
       kernels::linear_input_gradient(bf16({2, 4}), bf16({5, 8}), dx);
     },
     "linear_input_gradient: weight has 5 outputs, dy has 4"},
    {"dw_of_other_rows",
     [] {
       Tensor dw = bf16({4, 8});
       kernels::linear_weight_gradient(bf16({2, 4}), bf16({3, 8}), dw);
     },
     "linear_weight_gradient: dy has 2 rows, x has 3"},
};
INSTANTIATE_TEST_SUITE_P(rows, LinearErrors, testing::ValuesIn(kBadInputs),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- the provider's answers at real sizes, sampled

struct ProviderCase {
  std::string name;
  bool splits_k = false;  // cuBLAS adds up two chains there: the difference is named, not hidden
};
void PrintTo(const ProviderCase& row, std::ostream* out) { *out << row.name; }

struct LinearProvider : testing::TestWithParam<ProviderCase> {
  void SetUp() override {
    if (!exists(fixture_path("products.h5"))) GTEST_SKIP() << "fixture_absent: products.h5";
  }
};

// Rows `picks` of the operand: a row is `depth` elements that lie `depth_stride` apart.
Tensor picked(const std::string& name, int log2_std, std::span<const std::int64_t> picks, std::int64_t depth,
              std::int64_t row_stride, std::int64_t depth_stride) {
  const OperandSource source(name, log2_std);
  Tensor tensor(DType::bf16, {std::int64_t(picks.size()), depth});
  Bf16* word = tensor.data<Bf16>();
  for (const std::int64_t row : picks)
    for (std::int64_t k = 0; k < depth; ++k) *word++ = source.at(row * row_stride + k * depth_stride);
  return tensor;
}

TEST_P(LinearProvider, gives_the_same_bytes) {
  const std::string& name = GetParam().name;
  const std::string group = "projections/" + name;
  const Hdf5Reader file(fixture_path("products.h5"));
  const std::string form = file.string_attribute(group, "form");
  const std::int64_t rows = file.int_attribute(group, "rows"), inputs = file.int_attribute(group, "inputs"),
                     outputs = file.int_attribute(group, "outputs");
  const Tensor at_rows = file.read(group + "/rows"), at_columns = file.read(group + "/columns");
  const Tensor y_fp32 = file.read(group + "/y_fp32"), y_bf16 = file.read(group + "/y_bf16");
  const auto picks_left = at_rows.values<std::int64_t>(), picks_right = at_columns.values<std::int64_t>();
  constexpr int kWeightLog2 = -6;
  Tensor left, right;
  if (form == "forward") {
    left = picked(name + ".x", 0, picks_left, inputs, inputs, 1);
    right = picked(name + ".weight", kWeightLog2, picks_right, inputs, inputs, 1);
  } else if (form == "dx") {
    left = picked(name + ".dy", 0, picks_left, outputs, outputs, 1);
    right = picked(name + ".weight", kWeightLog2, picks_right, outputs, 1, inputs);
  } else {
    left = picked(name + ".dy", 0, picks_left, rows, 1, outputs);
    right = picked(name + ".x", 0, picks_right, rows, 1, inputs);
  }
  Tensor sum(DType::fp32, y_fp32.shape()), y(DType::bf16, y_bf16.shape()), bias;
  kernels::linear(left, right, nullptr, sum);
  if (file.int_attribute(group, "bias") != 0)
    bias = picked(name + ".bias", 0, picks_right, 1, 1, 1).reshaped({std::int64_t(picks_right.size())});
  kernels::linear(left, right, bias.empty() ? nullptr : &bias, y);
  if (GetParam().splits_k) {
    EXPECT_FALSE(same_bytes(y_bf16, y)) << "cuBLAS no longer splits K here";
    return;
  }
  EXPECT_TRUE(same_bytes(y_fp32, sum));
  EXPECT_TRUE(same_bytes(y_bf16, y));
}

std::vector<ProviderCase> provider_cases() {
  std::vector<ProviderCase> cases;
  for (const char* name : {"q", "o", "gate_up", "down"})
    for (const int rows : {264, 925, 3160})
      for (const char* form : {"forward", "dx", "dw"}) {
        const std::string full = fmt::format("{}_{}_{}", name, form, rows);
        cases.push_back({full, full == "gate_up_dx_264"});
      }
  for (const int rows : {1, 2, 3, 4, 64}) cases.push_back({fmt::format("adaln_forward_{}", rows)});
  cases.push_back({"context_forward_104"});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(rows, LinearProvider, testing::ValuesIn(provider_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
