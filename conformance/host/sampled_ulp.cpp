// The candidate's histogram in ulp beside the provider's: the same elements, the provider's counted again
// from the fixture, and a rounding too few that shows.
#include "harness/replay/sampled_ulp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>

#include "conformance/candidates/example.h"
#include "conformance/errors.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "harness/replay/replay.h"

namespace h3 {
namespace {

// ---- which elements

struct SampledRow {
  const char* name;
  DType dtype;
};
void PrintTo(const SampledRow& row, std::ostream* out) { *out << row.name; }

// Rows 4 and 1 of six are recorded; everywhere else golden and candidate hold NaN.
struct SampledUlpOf : testing::TestWithParam<SampledRow> {
  static constexpr std::int64_t kHeight = 6, kCols = 8;
  void SetUp() override {
    recorded.dtype = GetParam().dtype;
    recorded.height = kHeight;
    recorded.sampled_rows = {4, 1};
    Tensor rows(DType::fp32, {2, kCols});
    for (std::int64_t i = 0; i < 2 * kCols; ++i) {
      rows.data<float>()[i] = float(i + 1);
      golden.data<float>()[recorded.sampled_rows[std::size_t(i / kCols)] * kCols + i % kCols] = float(i + 1);
    }
    recorded.rows = rows.to(recorded.dtype);
  }
  // Of the type, so many steps above `value`, which is a power of two.
  float above(float value, int steps) const {
    return value * (1 + float(steps) * std::ldexp(1.0f, recorded.dtype == DType::bf16 ? -7 : -23));
  }
  RecordedBytes recorded;
  Tensor golden{DType::fp32, {kHeight, kCols}};
};

TEST_P(SampledUlpOf, are_those_of_the_recorded_rows) {
  Tensor candidate = golden.clone();
  candidate.data<float>()[1 * kCols + 7] = above(16, 3);  // of row 1, recorded second
  candidate.data<float>()[2 * kCols] = 1;                 // where the provider recorded nothing
  const SampledUlp found =
      sampled_ulp(golden.reshaped({kHeight, 2, kCols / 2}), candidate.to(recorded.dtype), recorded);
  EXPECT_EQ(found.rows, recorded.sampled_rows);
  EXPECT_EQ(found.candidate.elements, 2 * kCols);
  EXPECT_EQ(found.provider.elements, 2 * kCols);
  EXPECT_EQ(found.provider.bins[0], 2 * kCols);
  EXPECT_EQ(found.candidate.bins[0], 2 * kCols - 1);
  EXPECT_EQ(found.candidate.worst, 3u);
  EXPECT_EQ(found.candidate.worst_index, 2 * kCols - 1);
  EXPECT_EQ(found.candidate.non_finite_mismatches, 0);
  EXPECT_FALSE(found.equal());
  EXPECT_TRUE(sampled_ulp(golden, golden.to(recorded.dtype), recorded).equal());
}

TEST_P(SampledUlpOf, have_one_golden) {
  golden.data<float>()[4 * kCols] = above(1, 2);  // row 4, recorded first
  const SampledUlp found = sampled_ulp(golden, golden.to(recorded.dtype), recorded);
  EXPECT_EQ(found.candidate.bins[0], 2 * kCols);
  EXPECT_EQ(found.provider.bins[2], 1);
  EXPECT_EQ(found.provider.worst_index, 0);
}

TEST_P(SampledUlpOf, are_not_those_of_another_shape) {
  EXPECT_NE(error_of([&] { sampled_ulp(golden.row_range(0, 5), golden, recorded); }), "");
}

constexpr SampledRow kSampled[] = {{"bf16", DType::bf16}, {"fp32", DType::fp32}};
INSTANTIATE_TEST_SUITE_P(host, SampledUlpOf, testing::ValuesIn(kSampled),
                         [](const auto& info) { return info.param.name; });

// ---- block 0

constexpr const char* kNode = "residual_attn";

// BF16 words by their place among all values, found by search: it shares nothing with ulp.cpp.
class Places {
 public:
  Places() {
    for (std::uint32_t word = 0; word < 0x10000; ++word)
      if (const float value = to_float(Bf16(std::uint16_t(word))); std::isfinite(value))
        values_.push_back(value == 0 ? 0.0f : value);
    std::ranges::sort(values_);
    const auto repeated = std::ranges::unique(values_);
    values_.erase(repeated.begin(), repeated.end());
  }
  std::int64_t of(float value) const {
    return std::ranges::lower_bound(values_, value == 0 ? 0.0f : value) - values_.begin();
  }
  // Ties go to the even word; the places of neighbours alternate, and zero is even.
  std::int64_t nearest(double value) const {
    const std::int64_t zero = of(0), above = std::ranges::lower_bound(values_, value) - values_.begin();
    const double up = values_[std::size_t(above)] - value, down = value - values_[std::size_t(above - 1)];
    return up < down || (up == down && (above - zero) % 2 == 0) ? above : above - 1;
  }

 private:
  std::vector<float> values_;
};

std::map<std::string, std::int64_t> counted(const Tensor& golden) {
  const Places places;
  const Hdf5Reader file(fixture_path("block0.h5").string());
  const std::string node = std::string("/tiny/nodes/") + kNode;
  const auto sampled = file.read_vector<std::int64_t>(node + "/sampled_rows");
  const Tensor rows = file.read(node + "/rows");
  std::map<std::string, std::int64_t> bins;
  for (std::int64_t i = 0; i < rows.elements(); ++i) {
    const std::int64_t at = sampled[std::size_t(i / rows.cols())] * rows.cols() + i % rows.cols();
    const std::int64_t distance = std::abs(places.nearest(golden.at(at)) - places.of(rows.at(i)));
    std::int64_t last = 2;
    while (last < distance) last *= 2;
    ++bins[distance <= 2 ? std::to_string(distance) : fmt::format("{}-{}", last / 2 + 1, last)];
  }
  return bins;
}

std::map<std::string, std::int64_t> bins_of(const UlpHistogram& histogram) {
  return to_json(histogram).at("histogram");
}

struct BesideRow {
  const char *name, *library;
  const char* first;  // that is rounded otherwise; the nodes before it have the provider's bytes
};
void PrintTo(const BesideRow& row, std::ostream* out) { *out << row.name; }

struct BesideProvider : testing::TestWithParam<BesideRow> {};

TEST_P(BesideProvider, shows_who_rounds_otherwise) {
  ReplayRequest asked;
  asked.engine = example_library(GetParam().library);
  asked.batch_rows = false;
  Tensor golden;
  const ReplayReport report =
      replay_block(asked, {}, [&](const Node& node, const Values&, const Values& truth) {
        if (node.name == kNode) golden = truth.at(node.name);
      });
  std::string first;
  for (const NodeResult& node : report.nodes) {
    ASSERT_TRUE(node.ulp) << node.node;
    EXPECT_EQ(node.ulp->candidate.elements, node.provider->sampled_elements) << node.node;
    EXPECT_EQ(node.ulp->provider.non_finite_mismatches, 0) << node.node;
    EXPECT_TRUE(node.ulp->equal() || node.provider->elements_differing > 0) << node.node;
    if (first.empty() && !node.ulp->equal()) first = node.node;
  }
  EXPECT_EQ(first, GetParam().first);
  const SampledUlp& found = *std::ranges::find(report.nodes, kNode, &NodeResult::node)->ulp;
  EXPECT_EQ(bins_of(found.provider), counted(golden));
  // One rounding fewer is nearer to the golden.
  EXPECT_GT(found.candidate.share_correctly_rounded(), found.provider.share_correctly_rounded() + 0.01);
}

constexpr BesideRow kBeside[] = {{"fused", "example_candidate_fused", kNode}};
INSTANTIATE_TEST_SUITE_P(host, BesideProvider, testing::ValuesIn(kBeside),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
