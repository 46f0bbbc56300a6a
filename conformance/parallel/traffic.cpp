// Gate parallel: what a byte-equal exchange costs is counted, node by node, and stands beside the usual way.
#include <ostream>

#include "conformance/parallel/runs.h"
#include "harness/parallel/parallel_report.h"
#include "model/json.h"

namespace h3 {
namespace {

struct TrafficRow {
  const char* plan;
  const char* name;  // of the row
  const char* node;
  std::int64_t received;  // bytes, by all ranks together
  std::int64_t usual;     // by one rank
};
void PrintTo(const TrafficRow& row, std::ostream* out) { *out << row.plan << '_' << row.name; }

struct NodeTraffic : testing::TestWithParam<TrafficRow> {};

constexpr int kRanks = 3;

const std::vector<RankReport>& reports_of(const std::string& plan) {
  static std::map<std::string, std::vector<RankReport>> all;
  if (!all.contains(plan)) {
    const ParallelRequest request = request_of({"narrow", "tiny", "cpu", plan.c_str(), kRanks});
    all[plan] = run_logical_ranks(request, one_rank(request), plan_of(request));
  }
  return all.at(plan);
}

TEST_P(NodeTraffic, are_counted_beside_the_usual_way) {
  const auto [plan, name, node, received, usual] = GetParam();
  const OneRank& one = one_rank(request_of({"narrow", "tiny", "cpu", plan, kRanks}));
  std::int64_t together = 0;
  for (const RankReport& report : reports_of(plan)) {
    together += report.traffic.of(node);
    // As it travels from the rank's process to the one that started it.
    EXPECT_EQ(to_json(rank_report_of(to_json(report))), to_json(report));
  }
  EXPECT_EQ(together, received);
  EXPECT_EQ(usual_bytes(plan, node, one.graph, one.layout.rows(), std::int64_t(one.layout.timesteps.size()),
                        one.config, kRanks),
            usual);
}

// S = 264, H = 264, heads 9 x 128 = 1152, three times, six table parts for three tags; 3 ranks, BF16.
constexpr std::int64_t kStream = 2 * 264 * 264, kHeads = 2 * 264 * 1152;
constexpr TrafficRow kTraffic[] = {
    // The table and the rows: as the usual way. The input of o_proj is wider than what it gives: that is the
    // price.
    {"tensor", "adaln_projection", "adaln_projection", 2 * 2 * 3 * 18 * 264, 2 * 2 * 3 * 18 * 264 / 3},
    {"tensor", "q_proj", "q_proj", 2 * kStream, 2 * kStream / 3},
    {"tensor", "k_proj_reads_what_q_proj_gathered", "k_proj", 0, 0},
    {"tensor", "o_proj", "o_proj", 2 * kHeads, 2 * kStream / 3},
    {"tensor", "o_proj_from_channels_to_rows", "residual_attn", 2 * kStream / 3, 0},
    {"sequence", "attention", "attention", 3 * 2 * kHeads / 3, 3 * 2 * kHeads / 9},
    {"sequence", "o_proj", "o_proj", 2 * kHeads / 3, 2 * kHeads / 9},
    {"sequence", "q_proj", "q_proj", 0, 0},
    {"context", "attention", "attention", 2 * 2 * kHeads, 3 * 2 * kHeads / 9},
};
INSTANTIATE_TEST_SUITE_P(parallel, NodeTraffic, testing::ValuesIn(kTraffic), kRowName);

}  // namespace
}  // namespace h3
