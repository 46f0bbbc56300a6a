// RFC row h3_full_attention: forward.
#include "kernels/full_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <ostream>

#include "conformance/operands.h"
#include "conformance/rows/attention_problem.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "golden/full_attention.h"
#include "model/parallel.h"

namespace h3 {
namespace {

testing::AssertionResult same_bytes(const Tensor& expected, const Tensor& got) {
  if (expected.shape() != got.shape()) return testing::AssertionFailure() << "shapes differ";
  std::int64_t differing = 0, first = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i)
    if (expected.data<Bf16>()[i] != got.data<Bf16>()[i] && differing++ == 0) first = i;
  if (differing == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format(
             "{} of {} differ; first at row {}, column {}: expected {}, got {}", differing, got.elements(),
             first / got.cols(), first % got.cols(), expected.at(first), got.at(first));
}

Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v) {
  Tensor o(DType::bf16, {q.shape()[0], q.shape()[1] * kAttentionDim});
  kernels::full_attention(q, k, v, o);
  return o;
}

struct FullAttention : testing::TestWithParam<AttentionRow> {
  void SetUp() override {
    const AttentionProblem problem = problem_of(GetParam());
    q = problem.q, k = problem.k, v = problem.v;
  }
  Tensor q, k, v;
};

// Weights and result are rounded to BF16 once each (2^-8); sums and functions in FP32 are far below (2^-16).
TEST_P(FullAttention, matches_golden) {
  if (GetParam().log2_std > 0) {
    // A logit of thousands carries an FP32 error that its exponential shows: only the size of the result is
    // bounded.
    const Tensor o = attended(q, k, v);
    float largest = 0;
    for (std::int64_t i = 0; i < v.elements(); ++i) largest = std::max(largest, std::abs(v.at(i)));
    for (std::int64_t i = 0; i < o.elements(); ++i) ASSERT_LE(std::abs(o.at(i)), largest * (1 + 0x1p-7f));
    return;
  }
  Tensor magnitudes = v.clone();
  for (Bf16& word : magnitudes.values<Bf16>()) word = Bf16(std::uint16_t(word) & 0x7fff);
  const Tensor o = attended(q, k, v), truth = golden::full_attention(q, k, v),
               size = golden::full_attention(q, k, magnitudes);
  double worst = 0;
  for (std::int64_t i = 0; i < o.elements(); ++i) {
    const double error = std::abs(double(o.at(i)) - truth.at(i));
    const double bound = 0x1p-8 * std::abs(truth.at(i)) + (0x1p-8 + 0x1p-16) * size.at(i);
    ASSERT_LE(error, bound) << i;
    worst = std::max(worst, error / bound);
  }
  RecordProperty("measured", fmt::format("{:.3f}", worst));
  if (GetParam().keys > 1) {  // a single value comes back as it is
    EXPECT_GT(worst, 0.02) << "a bound that nothing comes near";
  }
}

TEST_P(FullAttention, rows_do_not_see_each_other) {
  const Tensor o = attended(q, k, v);
  const std::int64_t rows = o.rows();
  for (const std::int64_t at : {std::int64_t(0), rows / 2, rows - 1})
    EXPECT_TRUE(same_bytes(o.row_range(at, 1), attended(q.row_range(at, 1), k, v))) << at;
}

TEST_P(FullAttention, permuted_queries_permute_the_result) {
  Tensor turned(DType::bf16, q.shape()), back(DType::bf16, {q.shape()[0], q.shape()[1] * kAttentionDim});
  const auto reverse = [](const Tensor& from, Tensor& to) {
    const std::size_t row = from.size_bytes() / std::size_t(from.shape()[0]);
    for (std::int64_t i = 0; i < from.shape()[0]; ++i)
      std::memcpy(to.bytes() + std::size_t(from.shape()[0] - 1 - i) * row,
                  from.bytes() + std::size_t(i) * row, row);
  };
  reverse(q, turned);
  reverse(attended(turned, k, v), back);
  EXPECT_TRUE(same_bytes(attended(q, k, v), back));
}

TEST_P(FullAttention, heads_do_not_see_each_other) {
  const auto head = [](const Tensor& tensor, std::int64_t at) {
    Tensor one(DType::bf16, {tensor.shape()[0], 1, kAttentionDim});
    for (std::int64_t i = 0; i < tensor.shape()[0]; ++i)
      std::copy_n(tensor.data<Bf16>() + (i * tensor.shape()[1] + at) * kAttentionDim, kAttentionDim,
                  one.data<Bf16>() + i * kAttentionDim);
    return one;
  };
  const Tensor o = attended(q, k, v).reshaped({q.shape()[0], q.shape()[1], kAttentionDim});
  for (std::int64_t at = 0; at < q.shape()[1]; ++at)
    EXPECT_TRUE(same_bytes(head(o, at).reshaped({q.shape()[0], kAttentionDim}),
                           attended(head(q, at), head(k, at), head(v, at))))
        << at;
}

TEST_P(FullAttention, repeats_bitwise_for_any_threads_and_stays_inside_its_output) {
  const Tensor o = attended(q, k, v);
  Tensor wide(DType::bf16, {o.rows() + 2, o.cols()});
  Tensor inner = wide.row_range(1, o.rows());
  const int threads = thread_count();
  set_thread_count(threads + 2);
  kernels::full_attention(q, k, v, inner);
  set_thread_count(threads);
  EXPECT_TRUE(same_bytes(o, inner));
  const Tensor poison(DType::bf16, {1, o.cols()});
  EXPECT_TRUE(same_bytes(poison, wide.row_range(0, 1)));
  EXPECT_TRUE(same_bytes(poison, wide.row_range(o.rows() + 1, 1)));
}

constexpr AttentionRow kRows[] = {
    {128, 128, 2}, {264, 264, 2}, {1, 1, 1}, {7, 400, 3}, {520, 3, 1}, {65, 129, 2, 6},
};
INSTANTIATE_TEST_SUITE_P(rows, FullAttention, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

// ---- simple claims

struct AttentionClaim {
  const char* name;
  void (*check)();
};
void PrintTo(const AttentionClaim& claim, std::ostream* out) { *out << claim.name; }

void one_key_gives_its_value() {
  const Tensor q = normal_operand("one.q", {5, 2, kAttentionDim}),
               k = normal_operand("one.k", {1, 2, kAttentionDim}),
               v = normal_operand("one.v", {1, 2, kAttentionDim});
  const Tensor o = attended(q, k, v);
  for (std::int64_t row = 0; row < 5; ++row)
    EXPECT_TRUE(same_bytes(v.reshaped({1, 2 * kAttentionDim}), o.row_range(row, 1)));
}

void equal_keys_average_integers_exactly() {
  const Tensor q = normal_operand("equal.q", {3, 1, kAttentionDim}),
               v = integer_operand("equal.v", {256, 1, kAttentionDim}, 100);
  Tensor k(DType::bf16, {256, 1, kAttentionDim});
  std::fill_n(k.data<Bf16>(), k.elements(), to_bf16(0.5f));
  const Tensor o = attended(q, k, v);
  for (std::int64_t i = 0; i < kAttentionDim; ++i) {
    float sum = 0;
    for (std::int64_t key = 0; key < 256; ++key) sum += v.at(key * kAttentionDim + i);
    for (std::int64_t row = 0; row < 3; ++row)
      ASSERT_EQ(o.at(row * kAttentionDim + i), round_bf16(sum / 256)) << i;
  }
}

// Nothing is promised for another order of the keys, but data that hides it could not prove the canonical
// one.
void the_order_of_the_keys_is_seen() {
  const Tensor q = normal_operand("order.q", {64, 2, kAttentionDim}),
               k = normal_operand("order.k", {400, 2, kAttentionDim}),
               v = normal_operand("order.v", {400, 2, kAttentionDim});
  const auto reversed = [](const Tensor& from) {
    Tensor to(DType::bf16, from.shape());
    const std::int64_t width = from.shape()[1] * kAttentionDim;
    for (std::int64_t i = 0; i < from.shape()[0]; ++i)
      std::copy_n(from.data<Bf16>() + i * width, width, to.data<Bf16>() + (from.shape()[0] - 1 - i) * width);
    return to;
  };
  EXPECT_FALSE(same_bytes(attended(q, k, v), attended(q, reversed(k), reversed(v))));
}

void a_nan_spoils_its_row_and_no_other() {
  Tensor q = normal_operand("nan.q", {4, 1, kAttentionDim});
  const Tensor k = normal_operand("nan.k", {40, 1, kAttentionDim}),
               v = normal_operand("nan.v", {40, 1, kAttentionDim});
  const Tensor before = attended(q, k, v);
  q.data<Bf16>()[2 * kAttentionDim + 5] = Bf16(0x7fc0);
  const Tensor after = attended(q, k, v);
  for (std::int64_t i = 0; i < after.elements(); ++i)
    if (i / kAttentionDim == 2)
      ASSERT_TRUE(std::isnan(after.at(i)));
    else
      ASSERT_EQ(before.data<Bf16>()[i], after.data<Bf16>()[i]);
}

struct Attention : testing::TestWithParam<AttentionClaim> {};
TEST_P(Attention, keeps_its_promise) { GetParam().check(); }

#define CLAIM(name) \
  AttentionClaim { #name, name }
INSTANTIATE_TEST_SUITE_P(rows, Attention,
                         testing::Values(CLAIM(one_key_gives_its_value),
                                         CLAIM(equal_keys_average_integers_exactly),
                                         CLAIM(the_order_of_the_keys_is_seen),
                                         CLAIM(a_nan_spoils_its_row_and_no_other)),
                         [](const auto& info) { return std::string(info.param.name); });
#undef CLAIM

// ---- bad input

struct BadInput {
  const char* name;
  Tensor q, k, v, o;
  const char* message;
};
void PrintTo(const BadInput& row, std::ostream* out) { *out << row.name; }

struct AttentionErrors : testing::TestWithParam<BadInput> {};

TEST_P(AttentionErrors, are_one_line) {
  BadInput row = GetParam();
  try {
    kernels::full_attention(row.q, row.k, row.v, row.o);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), row.message);
  }
}

Tensor bf16(const Shape& shape) { return Tensor(DType::bf16, shape); }
INSTANTIATE_TEST_SUITE_P(
    rows, AttentionErrors,
    testing::Values(
        BadInput{"q_of_another_type", Tensor(DType::fp32, {4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}),
                 bf16({4, 256}), "full_attention: q: fp32, expected bf16"},
        BadInput{"another_head_dimension", bf16({4, 2, 64}), bf16({3, 2, 64}), bf16({3, 2, 64}),
                 bf16({4, 128}), "full_attention: q: shape 4x2x64, expected rows x heads x 128"},
        BadInput{"no_keys", bf16({4, 2, 128}), bf16({0, 2, 128}), bf16({0, 2, 128}), bf16({4, 256}),
                 "full_attention: k: shape 0x2x128, expected rows x heads x 128"},
        BadInput{"heads_that_differ", bf16({4, 2, 128}), bf16({3, 1, 128}), bf16({3, 1, 128}), bf16({4, 256}),
                 "full_attention: k has 1 heads, q has 2"},
        BadInput{"values_that_do_not_pair_with_keys", bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({5, 2, 128}),
                 bf16({4, 256}), "full_attention: v: shape 5x2x128, expected k's 3x2x128"},
        BadInput{"a_result_that_does_not_fit", bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}),
                 bf16({4, 128}), "full_attention: o: shape 4x128, expected 4x256"},
        BadInput{"a_result_of_another_type", bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}),
                 Tensor(DType::fp32, {4, 256}), "full_attention: o: fp32, expected bf16"}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- the provider's answers (cuDNN)

struct AttentionProvider : testing::TestWithParam<const char*> {
  void SetUp() override {
    if (!exists(fixture_path("products.h5"))) GTEST_SKIP() << "fixture_absent: products.h5";
  }
};

TEST_P(AttentionProvider, gives_the_same_bytes) {
  const std::string name = GetParam(), group = "attention/" + name;
  const Hdf5Reader file(fixture_path("products.h5"));
  const std::int64_t queries = file.int_attribute(group, "queries"), keys = file.int_attribute(group, "keys"),
                     heads = file.int_attribute(group, "heads");
  const int log2_std = int(file.int_attribute(group, "log2_std"));
  const Tensor o = file.read(group + "/o"), kept = file.read(group + "/kept_heads");
  const auto head_of = [&](const char* operand, int log2, std::int64_t rows, std::int64_t head) {
    const OperandSource source(name + "." + operand, log2);
    Tensor tensor(DType::bf16, {rows, 1, kAttentionDim});
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<Bf16>()[i] =
          source.at((i / kAttentionDim * heads + head) * kAttentionDim + i % kAttentionDim);
    return tensor;
  };
  for (std::int64_t i = 0; i < kept.elements(); ++i) {
    const std::int64_t head = kept.data<std::int64_t>()[i];
    EXPECT_TRUE(same_bytes(o.row_range(i, 1).reshaped({queries, kAttentionDim}),
                           attended(head_of("q", log2_std, queries, head), head_of("k", log2_std, keys, head),
                                    head_of("v", 0, keys, head))))
        << "head " << head;
  }
}

INSTANTIATE_TEST_SUITE_P(rows, AttentionProvider,
                         testing::Values("keys_128", "keys_264", "keys_400", "keys_925", "queries_8_of_400",
                                         "logits_in_thousands"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
