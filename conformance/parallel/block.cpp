// Gate parallel, RFC rows tp_adaln_3mod, sp_norm_adaln, cp_metadata_coshard, cp_arbitrary_length: block 0 on
// several ranks has the bytes of one rank, forward and backward, on every rank.
#include "conformance/parallel/runs.h"

namespace h3 {
namespace {

struct ParallelBlock : testing::TestWithParam<RanksRow> {
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
};

// 17 nodes and 31 gradients but the given one: every value that a rank holds.
TEST_P(ParallelBlock, equals_one_rank) {
  const ParallelRequest request = request_of(GetParam());
  const std::vector<RankReport> reports = run_logical_ranks(request, one_rank(request), plan_of(request));
  ASSERT_EQ(int(reports.size()), request.ranks);
  std::int64_t received = 0;
  for (const RankReport& report : reports) {
    EXPECT_EQ(report.values.size(), 17u + 30u) << "rank " << report.rank;
    received += report.traffic.total();
  }
  EXPECT_EQ(request.ranks > 1, received > 0) << "ranks that exchange nothing share nothing";
  RecordProperty("bytes_received_per_rank", std::to_string(received / request.ranks));
  const auto drift = first_drift(reports);
  EXPECT_FALSE(drift) << drift->to_string();
}

constexpr int kRanks[] = {1, 2, 3, 4, 7, 8};

// The context plan differs in attention's forward alone: two numbers of ranks.
void add_rows(std::vector<RanksRow>& rows, const char* config, const char* layout, const char* engine) {
  for (const char* plan : {"tensor", "sequence", "context"})
    for (const int ranks : kRanks)
      if (std::string(plan) != "context" || ranks == 3 || ranks == 8)
        rows.push_back({config, layout, engine, plan, ranks});
}

// At the real width one run on a CPU; the GPU runs them all.
std::vector<RanksRow> cpu_rows() {
  std::vector<RanksRow> rows;
  add_rows(rows, "narrow", "tiny", "cpu");
  add_rows(rows, "narrow", "small", "cpu");
  rows.push_back({"released", "tiny", "cpu", "tensor", 3});
  return rows;
}
INSTANTIATE_TEST_SUITE_P(parallel, ParallelBlock, testing::ValuesIn(cpu_rows()), kRowName);

#ifdef H3_HAVE_CUDA
std::vector<RanksRow> cuda_rows() {
  std::vector<RanksRow> rows;
  add_rows(rows, "narrow", "tiny", "cuda");
  add_rows(rows, "released", "tiny", "cuda");
  add_rows(rows, "released", "small", "cuda");
  return rows;
}
INSTANTIATE_TEST_SUITE_P(parallel_cuda, ParallelBlock, testing::ValuesIn(cuda_rows()), kRowName);
#endif

}  // namespace
}  // namespace h3
