// Softmax rows and growth of error: known entropies, and what a diagnosis shows of them.
#include "harness/replay/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

namespace h3 {
namespace {

struct SoftmaxRow {
  const char* name;
  std::vector<float> logits;  // of every key, for the one query
  double largest, entropy;
};
void PrintTo(const SoftmaxRow& row, std::ostream* out) { *out << row.name; }

struct SoftmaxRows : testing::TestWithParam<SoftmaxRow> {};

// q is 1 in the first channel of each head, so that k holds the logits; head 1 has them all 0.
TEST_P(SoftmaxRows, have_the_known_entropy) {
  const SoftmaxRow& row = GetParam();
  constexpr std::int64_t kHeads = 2, kHeadDim = 4;
  const auto keys = std::int64_t(row.logits.size());
  Tensor q(DType::fp32, {3, kHeads, kHeadDim}), k(DType::fp32, {keys, kHeads, kHeadDim});
  for (float& value : q.values<float>()) value = 0;
  for (float& value : k.values<float>()) value = 0;
  for (std::int64_t s = 0; s < 3 * kHeads; ++s) q.data<float>()[s * kHeadDim] = 2;  // sqrt(d)
  for (std::int64_t s = 0; s < keys; ++s) k.data<float>()[s * kHeads * kHeadDim] = row.logits[std::size_t(s)];
  const std::int64_t queries[] = {0, 2};
  const auto heads = diagnose_heads(q, k, queries);
  ASSERT_EQ(heads.size(), std::size_t(kHeads));
  EXPECT_DOUBLE_EQ(heads[0].largest_logit, row.largest);
  EXPECT_NEAR(heads[0].mean_entropy, row.entropy, 1e-7);  // of logits stored as FP32
  EXPECT_NEAR(heads[0].min_entropy, row.entropy, 1e-7);
  EXPECT_EQ(heads[1].largest_logit, 0);
  EXPECT_NEAR(heads[1].mean_entropy, std::log(double(keys)), 1e-12);
}

const SoftmaxRow kSoftmax[] = {
    {"one_key", {3}, 3, 0},
    {"even_weights", {5, 5, 5, 5}, 5, std::log(4.0)},
    {"one_and_three", {0, std::log(3.0f)}, double(std::log(3.0f)), 0.5623351446188083},
    {"one_key_takes_all", {4000, 0, -4000}, 4000, 0},
    {"magnitude_counts", {-6000, -5990}, 6000, 4.99387e-4},
};
INSTANTIATE_TEST_SUITE_P(host, SoftmaxRows, testing::ValuesIn(kSoftmax),
                         [](const auto& info) { return info.param.name; });

struct QueriesRow {
  const char* name;
  std::int64_t rows, most, count;
};
void PrintTo(const QueriesRow& row, std::ostream* out) { *out << row.name; }

struct SampledQueries : testing::TestWithParam<QueriesRow> {};

TEST_P(SampledQueries, are_distinct_rows_from_the_first_to_the_last) {
  const QueriesRow& row = GetParam();
  const auto queries = sampled_queries(row.rows, row.most);
  ASSERT_EQ(std::int64_t(queries.size()), row.count);
  EXPECT_EQ(queries.front(), 0);
  EXPECT_EQ(queries.back(), row.rows - 1);
  for (std::size_t i = 1; i < queries.size(); ++i) EXPECT_LT(queries[i - 1], queries[i]);
}

constexpr QueriesRow kQueries[] = {
    {"one_row", 1, 64, 1},    {"fewer_than_asked", 10, 64, 10}, {"as_many", 64, 64, 64},
    {"one_more", 65, 64, 64}, {"many", 38718, 64, 64},
};
INSTANTIATE_TEST_SUITE_P(host, SampledQueries, testing::ValuesIn(kQueries),
                         [](const auto& info) { return info.param.name; });

struct GrowthRow {
  const char* name;
  double error, input_error;
  const char* shown;  // in the table
};
void PrintTo(const GrowthRow& row, std::ostream* out) { *out << row.name; }

struct ErrorGrowth : testing::TestWithParam<GrowthRow> {};

TEST_P(ErrorGrowth, is_a_ratio_or_absent) {
  const GrowthRow& row = GetParam();
  Diagnosis diagnosis;
  diagnosis.nodes.push_back({.node = "attention",
                             .worst_input = row.input_error > 0 ? "rope_q" : "",
                             .error = row.error,
                             .input_error = row.input_error});
  EXPECT_NE(to_table(diagnosis).find(row.shown), std::string::npos) << to_table(diagnosis);
  const auto json = to_json(diagnosis)["nodes"][0];
  EXPECT_EQ(json["growth"].is_null(), row.input_error == 0);
  EXPECT_EQ(json["worst_input"].is_null(), row.input_error == 0);
}

constexpr GrowthRow kGrowths[] = {
    {"grows", 3e-2, 1e-3, " 30x  rope_q"},
    {"shrinks", 1e-3, 2e-3, " 0.5x  rope_q"},
    {"exact_inputs", 1e-3, 0, " -  - "},
};
INSTANTIATE_TEST_SUITE_P(host, ErrorGrowth, testing::ValuesIn(kGrowths),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
