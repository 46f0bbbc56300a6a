// RFC row h3_full_attention: backward, and the log-sum-exp that it starts from.
#include "kernels/full_attention_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/rows/attention_problem.h"
#include "golden/full_attention.h"
#include "model/parallel.h"

namespace h3 {
namespace {

struct FullAttentionBackward : testing::TestWithParam<AttentionRow> {
  AttentionProblem problem() const { return problem_of(GetParam()); }
};

double dot(const Tensor& a, std::int64_t row_a, const Tensor& b, std::int64_t row_b) {
  double sum = 0;
  for (std::int64_t c = 0; c < kAttentionDim; ++c)
    sum += double(a.at(row_a * kAttentionDim + c)) * b.at(row_b * kAttentionDim + c);
  return sum;
}

// What rounding can do to an element of dq, dk and dv. P and dS are rounded to BF16 as operands (2^-8 at
// most), and so is o, which delta is made of; every result is rounded once more. Sums and functions in FP32
// err by less than 2^-14 of the magnitudes that they add. Row r of a (rows, heads, 128) tensor's head h is
// row r * heads + h of what is read here.
AttentionResult bounds_of(const AttentionProblem& problem, const golden::AttentionGradients& truth,
                          const Tensor& output) {
  constexpr double kRounded = 0x1p-8, kSummed = 0x1p-14;
  const std::int64_t rows = problem.q.shape()[0], heads = problem.q.shape()[1], keys = problem.k.shape()[0];
  const double scale = 1 / std::sqrt(double(kAttentionDim));
  std::vector<double> dq(std::size_t(problem.q.elements())), dk(std::size_t(problem.k.elements())), dv = dk;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = row * heads + head;
      std::vector<double> weights(static_cast<std::size_t>(keys));
      double largest = -INFINITY, total = 0, delta_size = 0, delta = 0;
      for (std::int64_t key = 0; key < keys; ++key)
        largest =
            std::max(largest, weights[key] = dot(problem.q, query, problem.k, key * heads + head) * scale);
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (std::int64_t c = 0; c < kAttentionDim; ++c) {
        const double term =
            double(problem.dout.at(query * kAttentionDim + c)) * output.at(query * kAttentionDim + c);
        delta += term;
        delta_size += std::abs(term);
      }
      for (std::int64_t key = 0; key < keys; ++key) {
        const std::int64_t other = key * heads + head;
        const double p = weights[key] / total, dp = dot(problem.dout, query, problem.v, other);
        const double ds_error = p * scale *
                                ((kRounded + kSummed) * (std::abs(dp - delta)) + kRounded * delta_size +
                                 kSummed * (std::abs(dp) + delta_size + kAttentionDim));
        for (std::int64_t c = 0; c < kAttentionDim; ++c) {
          dq[query * kAttentionDim + c] += ds_error * std::abs(problem.k.at(other * kAttentionDim + c));
          dk[other * kAttentionDim + c] += ds_error * std::abs(problem.q.at(query * kAttentionDim + c));
          dv[other * kAttentionDim + c] +=
              (kRounded + kSummed) * p * std::abs(problem.dout.at(query * kAttentionDim + c));
        }
      }
    }
  const auto bound = [](const std::vector<double>& error, const Tensor& value) {
    Tensor tensor(DType::fp32, value.shape());
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<float>()[i] = float(error[std::size_t(i)] + kRounded * std::abs(value.at(i)));
    return tensor;
  };
  return {{}, {}, bound(dq, truth.q), bound(dk, truth.k), bound(dv, truth.v)};
}

TEST_P(FullAttentionBackward, matches_golden) {
  const AttentionProblem given = problem();
  const AttentionResult found = on_cpu(given);
  const auto truth = golden::full_attention_backward(given.q, given.k, given.v, given.dout);
  const AttentionResult bounds = bounds_of(given, truth, found.o);
  double worst = 0;
  const auto hold = [&](const char* what, const Tensor& golden, const Tensor& got, const Tensor& bound) {
    for (std::int64_t i = 0; i < got.elements(); ++i) {
      const double error = std::abs(double(got.at(i)) - golden.at(i));
      ASSERT_LE(error, bound.at(i)) << what << " at " << i;
      if (bound.at(i) > 0) worst = std::max(worst, error / bound.at(i));
    }
  };
  hold("dq", truth.q, found.dq, bounds.dq);
  hold("dk", truth.k, found.dk, bounds.dk);
  hold("dv", truth.v, found.dv, bounds.dv);
  RecordProperty("measured", fmt::format("{:.3f}", worst));
  EXPECT_GT(worst, 0.02) << "a bound that nothing comes near";
}

// exp(lse) is the sum of the exponentials: FP32 with a hardware exponential and logarithm.
TEST_P(FullAttentionBackward, log_sum_exp_is_one) {
  const AttentionProblem given = problem();
  const AttentionResult found = on_cpu(given);
  const std::int64_t rows = given.q.shape()[0], heads = given.q.shape()[1], keys = given.k.shape()[0];
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < rows; row += 7) {
      std::vector<double> logits;
      for (std::int64_t key = 0; key < keys; ++key)
        logits.push_back(dot(given.q, row * heads + head, given.k, key * heads + head) /
                         std::sqrt(double(kAttentionDim)));
      const double largest = *std::max_element(logits.begin(), logits.end());
      double total = 0;
      for (const double logit : logits) total += std::exp(logit - largest);
      const double truth = largest + std::log(total);
      ASSERT_NEAR(found.lse.at(head * rows + row), truth, 0x1p-20 * (std::abs(truth) + 8)) << row;
    }
}

TEST_P(FullAttentionBackward, repeats_bitwise_for_any_threads_and_stays_inside_its_outputs) {
  const AttentionProblem given = problem();
  const AttentionResult first = on_cpu(given);
  GuardedOutput dq(DType::bf16, given.q.shape()), dk(DType::bf16, given.k.shape()),
      dv(DType::bf16, given.k.shape());
  const int threads = thread_count();
  set_thread_count(threads + 2);
  kernels::full_attention_backward(given.q, given.k, given.v, first.o, first.lse, given.dout, dq.tensor(),
                                   dk.tensor(), dv.tensor());
  set_thread_count(threads);
  EXPECT_TRUE(bitwise_equal(first.dq, dq.tensor()));
  EXPECT_TRUE(bitwise_equal(first.dk, dk.tensor()));
  EXPECT_TRUE(bitwise_equal(first.dv, dv.tensor()));
  for (const GuardedOutput* output : {&dq, &dk, &dv}) {
    EXPECT_TRUE(output->nothing_written_outside());
    EXPECT_TRUE(output->everything_written_inside());
  }
}

TEST_P(FullAttentionBackward, query_rows_do_not_see_each_other) {
  const AttentionProblem given = problem();
  const AttentionResult all = on_cpu(given);
  const std::int64_t rows = given.q.shape()[0];
  for (const std::int64_t at : {std::int64_t(0), rows / 2, rows - 1}) {
    const AttentionResult alone =
        on_cpu({given.q.row_range(at, 1), given.k, given.v, given.dout.row_range(at, 1)});
    EXPECT_TRUE(bitwise_equal(all.dq.row_range(at, 1), alone.dq)) << at;
  }
}

constexpr AttentionRow kRows[] = {
    {128, 128, 2}, {264, 264, 1}, {7, 200, 2}, {130, 3, 1}, {65, 129, 2, 1}, {1, 2, 1}, {70, 131, 1, 0, true},
};
INSTANTIATE_TEST_SUITE_P(rows, FullAttentionBackward, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

// ---- the provider's answers

struct FullAttentionBackwardProvider : testing::TestWithParam<const char*> {};

TEST_P(FullAttentionBackwardProvider, gives_the_same_bytes) { expect_recorded(GetParam(), on_cpu); }

INSTANTIATE_TEST_SUITE_P(rows, FullAttentionBackwardProvider, testing::ValuesIn(kRecordedAttention),
                         [](const auto& info) { return std::string(info.param); });

// ---- simple claims

struct BackwardClaim {
  const char* name;
  void (*check)();
};
void PrintTo(const BackwardClaim& claim, std::ostream* out) { *out << claim.name; }

// A weight that is one whatever the score is: nothing reaches q and k, and v gets the sum.
void one_key_passes_the_gradient_to_its_value() {
  const AttentionResult found = on_cpu(AttentionProblem::drawn("one_key", 1, 1, 2, 0));
  const AttentionProblem given = AttentionProblem::drawn("one_key", 1, 1, 2, 0);
  EXPECT_TRUE(bitwise_equal(given.dout.reshaped(found.dv.shape()), found.dv));
  // P is ex2 of a difference of roundings, not exactly one, and dP and delta are sums of other orders.
  for (const Tensor* gradient : {&found.dq, &found.dk})
    for (std::int64_t i = 0; i < gradient->elements(); ++i) ASSERT_NEAR(gradient->at(i), 0, 1e-5);
}

void a_nan_in_the_gradient_spoils_its_row_of_dq_and_no_other() {
  AttentionProblem given = AttentionProblem::drawn("nan", 40, 30, 1, 0);
  const AttentionResult before = on_cpu(given);
  given.dout = given.dout.clone();
  given.dout.data<Bf16>()[17 * kAttentionDim + 5] = Bf16(0x7fc0);
  const AttentionResult after = on_cpu(given);
  for (std::int64_t i = 0; i < after.dq.elements(); ++i)
    if (i / kAttentionDim == 17)
      ASSERT_TRUE(std::isnan(after.dq.at(i)));
    else
      ASSERT_EQ(before.dq.data<Bf16>()[i], after.dq.data<Bf16>()[i]);
  for (std::int64_t i = 0; i < after.dk.elements(); ++i) ASSERT_TRUE(std::isnan(after.dk.at(i)));
}

// Nothing is promised for another order of the query rows, but data that hides it could not prove the
// canonical one.
void the_order_of_the_queries_is_seen_in_dk() {
  const AttentionProblem given = AttentionProblem::drawn("order", 300, 40, 1, 0);
  AttentionProblem turned = given;
  turned.q = Tensor(DType::bf16, given.q.shape());
  turned.dout = Tensor(DType::bf16, given.dout.shape());
  for (std::int64_t row = 0; row < 300; ++row) {
    std::copy_n(given.q.data<Bf16>() + row * kAttentionDim, kAttentionDim,
                turned.q.data<Bf16>() + (299 - row) * kAttentionDim);
    std::copy_n(given.dout.data<Bf16>() + row * kAttentionDim, kAttentionDim,
                turned.dout.data<Bf16>() + (299 - row) * kAttentionDim);
  }
  EXPECT_FALSE(bitwise_equal(on_cpu(given).dk, on_cpu(turned).dk));
}

struct AttentionBackward : testing::TestWithParam<BackwardClaim> {};
TEST_P(AttentionBackward, keeps_its_promise) { GetParam().check(); }

#define CLAIM(name) \
  BackwardClaim { #name, name }
INSTANTIATE_TEST_SUITE_P(rows, AttentionBackward,
                         testing::Values(CLAIM(one_key_passes_the_gradient_to_its_value),
                                         CLAIM(a_nan_in_the_gradient_spoils_its_row_of_dq_and_no_other),
                                         CLAIM(the_order_of_the_queries_is_seen_in_dk)),
                         [](const auto& info) { return std::string(info.param.name); });
#undef CLAIM

// ---- bad input

struct BadBackward {
  const char* name;
  void (*spoil)(AttentionProblem&, AttentionResult&);
  const char* message;
};
void PrintTo(const BadBackward& row, std::ostream* out) { *out << row.name; }

struct FullAttentionBackwardErrors : testing::TestWithParam<BadBackward> {};

TEST_P(FullAttentionBackwardErrors, are_one_line) {
  AttentionProblem given = AttentionProblem::drawn("bad", 3, 5, 2, 0);
  AttentionResult result = on_cpu(given);
  GetParam().spoil(given, result);
  EXPECT_EQ(error_of([&] {
              kernels::full_attention_backward(given.q, given.k, given.v, result.o, result.lse, given.dout,
                                               result.dq, result.dk, result.dv);
            }),
            GetParam().message);
}

const BadBackward kBad[] = {
    {"heads_of_64",
     [](AttentionProblem& p, AttentionResult&) {
       p.q = Tensor(DType::bf16, {3, 2, 64});
     },
     "full_attention_backward: q: shape 3x2x64, expected rows x heads x 128"},
    {"keys_with_other_heads",
     [](AttentionProblem& p, AttentionResult&) {
       p.k = Tensor(DType::bf16, {5, 1, 128});
     },
     "full_attention_backward: k: shape 5x1x128, expected 5x2x128"},
    {"a_gradient_of_another_type",
     [](AttentionProblem& p, AttentionResult&) {
       p.dout = Tensor(DType::fp32, {3, 256});
     },
     "full_attention_backward: dout: fp32, expected bf16"},
    {"lse_turned_over",
     [](AttentionProblem&, AttentionResult& r) {
       r.lse = Tensor(DType::fp32, {3, 2});
     },
     "full_attention_backward: lse: fp32 3x2, expected fp32 2x3"},
    {"dk_of_the_queries",
     [](AttentionProblem&, AttentionResult& r) {
       r.dk = Tensor(DType::bf16, {3, 2, 128});
     },
     "full_attention_backward: dk: shape 3x2x128, expected 5x2x128"},
};
INSTANTIATE_TEST_SUITE_P(rows, FullAttentionBackwardErrors, testing::ValuesIn(kBad),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
