// The golden's sums on a GPU against its own ordered ones, and the comparator there against the one on a CPU.
#ifdef H3_HAVE_CUDA
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance/rows/on_cuda.h"
#include "golden/full_attention.h"
#include "golden/product.h"
#include "harness/compare/compare_device.h"
#include "model/digest.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using golden::Summation;

Tensor random(const char* name, const Shape& shape, DType dtype) {
  return synthetic_activation(kDefaultSeed, name, shape, dtype);
}

Tensor on_cpu(const Tensor& tensor) {
  return tensor.device() == Device::cuda ? cuda::download(tensor) : tensor;
}

Tensor magnitudes(const Tensor& tensor) {
  Tensor result = tensor.to(DType::fp64);
  for (double& value : result.values<double>()) value = std::fabs(value);
  return result;
}

// ---- products ----

struct ProductRow {
  const char* name;
  std::int64_t rows, cols, depth;
  DType weight;
  bool weight_on_gpu, bias;
};
void PrintTo(const ProductRow& row, std::ostream* out) { *out << row.name; }

class GoldenProductOnGpu : public testing::TestWithParam<ProductRow> {
 protected:
  void SetUp() override { H3_NEEDS_HOPPER(); }
  Tensor x() const { return random("x", {GetParam().rows, GetParam().depth}, DType::fp32); }
  Tensor dy() const { return random("dy", {GetParam().rows, GetParam().cols}, DType::fp32); }
  Tensor weight() const { return random("weight", {GetParam().cols, GetParam().depth}, GetParam().weight); }
  Tensor bias() const { return random("bias", {GetParam().cols}, DType::fp32); }
  Tensor placed(const Tensor& weight) const {
    return GetParam().weight_on_gpu ? cuda::upload(weight) : weight;
  }

  // Two orders of the same FP64 sum of `terms` differ by at most 2 * terms * 2^-53 * the sum of magnitudes.
  static void expect_same_sums(const Tensor& gpu, const Tensor& ordered, const Tensor& sum_of_magnitudes,
                               std::int64_t terms) {
    const Tensor got = on_cpu(gpu);
    ASSERT_EQ(got.shape(), ordered.shape());
    for (std::int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.data<double>()[i], ordered.data<double>()[i],
                  2 * double(terms) * 0x1p-53 * sum_of_magnitudes.data<double>()[i])
          << "element " << i;
  }
};

TEST_P(GoldenProductOnGpu, sums_what_the_ordered_one_sums) {
  const Tensor w = weight(), b = bias(), *with = GetParam().bias ? &b : nullptr, all = magnitudes(b);
  expect_same_sums(
      golden::product(x(), placed(w), with, Summation::gpu, DType::fp64),
      golden::product(x(), w, with, Summation::ordered, DType::fp64),
      golden::product(magnitudes(x()), magnitudes(w), with ? &all : nullptr, Summation::ordered, DType::fp64),
      GetParam().depth + 1);
}

TEST_P(GoldenProductOnGpu, has_the_gradient_of_x) {
  const Tensor w = weight();
  expect_same_sums(golden::input_gradient(dy(), placed(w), Summation::gpu, DType::fp64),
                   golden::input_gradient(dy(), w, Summation::ordered, DType::fp64),
                   golden::input_gradient(magnitudes(dy()), magnitudes(w), Summation::ordered, DType::fp64),
                   GetParam().cols);
}

TEST_P(GoldenProductOnGpu, keeps_the_gradient_of_the_weight_there) {
  const Tensor gpu = golden::weight_gradient(dy(), x(), Summation::gpu, DType::fp64);
  EXPECT_EQ(gpu.device(), Device::cuda);
  expect_same_sums(
      gpu, golden::weight_gradient(dy(), x(), Summation::ordered, DType::fp64),
      golden::weight_gradient(magnitudes(dy()), magnitudes(x()), Summation::ordered, DType::fp64),
      GetParam().rows);
}

TEST_P(GoldenProductOnGpu, rounds_once_to_fp32) {
  const Tensor w = weight();
  const Tensor wide = golden::product(x(), placed(w), nullptr, Summation::gpu, DType::fp64),
               narrow = golden::product(x(), placed(w), nullptr, Summation::gpu, DType::fp32);
  for (std::int64_t i = 0; i < wide.elements(); ++i)
    ASSERT_EQ(narrow.data<float>()[i], float(wide.data<double>()[i])) << "element " << i;
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, GoldenProductOnGpu,
                         testing::Values(ProductRow{"one_row", 1, 40, 72, DType::bf16, true, false},
                                         ProductRow{"odd", 33, 77, 129, DType::bf16, true, true},
                                         ProductRow{"deep", 9, 96, 5376, DType::bf16, true, false},
                                         ProductRow{"fp32_weight", 65, 34, 258, DType::fp32, true, true},
                                         ProductRow{"weight_on_cpu", 17, 65, 96, DType::bf16, false, true}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// ---- attention ----

struct AttentionRow {
  const char* name;
  std::int64_t queries, keys, heads;
};
void PrintTo(const AttentionRow& row, std::ostream* out) { *out << row.name; }

class GoldenAttentionOnGpu : public testing::TestWithParam<AttentionRow> {
 protected:
  void SetUp() override { H3_NEEDS_HOPPER(); }
  // FP64 sums of at most 1024 terms, and logits below 64 whose error an exponential hands on.
  static constexpr double kLimit = 64 * 1024 * 0x1p-53;
  Tensor heads(const char* name, std::int64_t rows) const {
    return random(name, {rows, GetParam().heads, 128}, DType::fp64);
  }
  const Tensor q = heads("q", GetParam().queries), k = heads("k", GetParam().keys),
               v = heads("v", GetParam().keys);
};

TEST_P(GoldenAttentionOnGpu, sums_what_the_ordered_one_sums) {
  EXPECT_LE(
      compare(golden::full_attention(q, k, v), golden::full_attention(q, k, v, Summation::gpu)).relative_l2,
      kLimit);
}

TEST_P(GoldenAttentionOnGpu, has_its_gradients) {
  const Tensor gradient = random("do", {GetParam().queries, GetParam().heads * 128}, DType::fp64);
  const auto [dq, dk, dv] = golden::full_attention_backward(q, k, v, gradient);
  const auto gpu = golden::full_attention_backward(q, k, v, gradient, Summation::gpu);
  EXPECT_LE(compare(dq, gpu.q).relative_l2, kLimit);
  EXPECT_LE(compare(dk, gpu.k).relative_l2, kLimit);
  EXPECT_LE(compare(dv, gpu.v).relative_l2, kLimit);
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, GoldenAttentionOnGpu,
                         testing::Values(AttentionRow{"one_key", 3, 1, 2}, AttentionRow{"square", 70, 70, 3},
                                         AttentionRow{"some_queries", 5, 300, 2}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// ---- the comparator ----

struct CompareRow {
  const char* name;
  DType dtype;
  std::int64_t elements;
  void (*spoil)(Tensor& expected, Tensor& actual);
};
void PrintTo(const CompareRow& row, std::ostream* out) { *out << row.name << '_' << name_of(row.dtype); }

void set(Tensor& tensor, std::int64_t at, float value) {
  if (tensor.dtype() == DType::fp32)
    tensor.data<float>()[at] = value;
  else
    tensor.data<Bf16>()[at] = to_bf16(value);
}

constexpr float kInf = std::numeric_limits<float>::infinity();

class CompareOnGpu : public testing::TestWithParam<CompareRow> {
 protected:
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(CompareOnGpu, says_what_the_one_on_a_cpu_says) {
  Tensor expected = random("expected", {GetParam().elements}, DType::fp32),
         actual = expected.to(GetParam().dtype);
  GetParam().spoil(expected, actual);
  const Comparison cpu = compare(expected, actual),
                   gpu = compare_on_gpu(cuda::upload(expected), cuda::upload(actual));
  EXPECT_EQ(gpu.mismatch, cpu.mismatch);
  EXPECT_EQ(gpu.elements, cpu.elements);
  EXPECT_EQ(gpu.differing, cpu.differing);
  EXPECT_EQ(gpu.first_differing, cpu.first_differing);
  EXPECT_EQ(gpu.first_row, cpu.first_row);
  EXPECT_EQ(gpu.differing_values, cpu.differing_values);
  EXPECT_EQ(gpu.negative_zero, cpu.negative_zero);
  EXPECT_EQ(gpu.unwritten, cpu.unwritten);
  EXPECT_EQ(gpu.first_unwritten, cpu.first_unwritten);
  EXPECT_EQ(gpu.expected_nan, cpu.expected_nan);
  EXPECT_EQ(gpu.expected_inf, cpu.expected_inf);
  EXPECT_EQ(gpu.actual_nan, cpu.actual_nan);
  EXPECT_EQ(gpu.actual_inf, cpu.actual_inf);
  EXPECT_EQ(gpu.non_finite_mismatches, cpu.non_finite_mismatches);
  EXPECT_EQ(gpu.first_non_finite_mismatch, cpu.first_non_finite_mismatch);
  EXPECT_EQ(gpu.expected_absmax, cpu.expected_absmax);
  EXPECT_EQ(gpu.max_abs, cpu.max_abs);
  EXPECT_EQ(gpu.max_abs_index, cpu.max_abs_index);
  EXPECT_EQ(gpu.max_ulp, cpu.max_ulp);
  EXPECT_EQ(gpu.max_ulp_index, cpu.max_ulp_index);
  const double slack = double(GetParam().elements) * 0x1p-53;  // of FP64 sums of squares in another order
  EXPECT_NEAR(gpu.expected_l2, cpu.expected_l2, slack * cpu.expected_l2);
  EXPECT_NEAR(gpu.actual_l2, cpu.actual_l2, slack * cpu.actual_l2);
  EXPECT_NEAR(gpu.relative_l2, cpu.relative_l2, slack * cpu.relative_l2);
  EXPECT_NEAR(gpu.cosine, cpu.cosine, 4 * slack);
}

TEST_P(CompareOnGpu, has_the_digest_of_the_bytes) {
  Tensor expected = random("expected", {GetParam().elements}, DType::fp32),
         actual = expected.to(GetParam().dtype);
  GetParam().spoil(expected, actual);
  EXPECT_EQ(xxh3_128_on_gpu(cuda::upload(actual)), xxh3_128_hex(actual.byte_span()));
}

void nothing(Tensor&, Tensor&) {}
void one_element(Tensor&, Tensor& actual) { set(actual, 137, 3.0f); }
void a_negative_zero(Tensor& expected, Tensor& actual) { set(expected, 5, 0.0f), set(actual, 5, -0.0f); }
void not_finite(Tensor& expected, Tensor& actual) {
  set(actual, 300, std::nanf(""));
  set(actual, 301, kInf);
  set(expected, 302, kInf);
  set(expected, 303, -kInf), set(actual, 303, -kInf);
  set(expected, 304, std::nanf("")), set(actual, 304, std::nanf(""));
}
void unwritten(Tensor&, Tensor& actual) {
  std::fill_n(actual.bytes() + 200 * size_of(actual.dtype()), 7 * size_of(actual.dtype()), std::byte(0xff));
}
void two_largest(Tensor& expected, Tensor& actual) {
  for (const std::int64_t at : {900, 80}) set(expected, at, 1.0f), set(actual, at, 64.0f);
}

std::vector<CompareRow> compare_rows() {
  std::vector<CompareRow> rows;
  for (const DType dtype : {DType::bf16, DType::fp32})
    for (const CompareRow& row :
         std::initializer_list<CompareRow>{{"rounded", dtype, 1 << 20, nothing},
                                           {"few", dtype, 1000, one_element},
                                           {"negative_zero", dtype, 1000, a_negative_zero},
                                           {"not_finite", dtype, 5000, not_finite},
                                           {"unwritten", dtype, 5000, unwritten},
                                           {"the_first_of_two", dtype, 300001, two_largest}})
      rows.push_back(row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, CompareOnGpu, testing::ValuesIn(compare_rows()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
#endif
