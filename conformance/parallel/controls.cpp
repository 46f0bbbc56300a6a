// Gate parallel, controls: faults that a parallel run must not survive. Each is detected and named by the
// first value that leaves the bytes of one rank; what can be seen before anything runs is rejected as
// non-comparable.
#include <cstring>
#include <functional>
#include <ostream>

#include "conformance/errors.h"
#include "conformance/parallel/runs.h"

namespace h3 {
namespace {

// An exchange with a fault: parts are changed on their way.
class Tampered : public Exchange {
 public:
  using Tamper = std::function<void(int rank, const std::string& node, std::vector<Tensor>& parts)>;
  Tampered(Exchange& inner, Tamper outgoing, Tamper incoming)
      : Exchange(inner.rank(), inner.ranks()),
        inner_(inner),
        outgoing_(std::move(outgoing)),
        incoming_(std::move(incoming)) {}
  std::vector<std::string> announce(const std::string& what, const std::string& text) override {
    return inner_.announce(what, text);
  }

 protected:
  void move(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming) override {
    std::vector<Tensor> out(outgoing.begin(), outgoing.end()), in(incoming.begin(), incoming.end());
    if (outgoing_) outgoing_(rank(), node, out);
    inner_.swap(node, out, in);
    if (incoming_) incoming_(rank(), node, in);  // the same storage as `incoming`
  }

 private:
  Exchange& inner_;
  Tamper outgoing_, incoming_;
};

struct ControlRow {
  const char* name;
  const char* plan;
  int ranks;
  Tampered::Tamper outgoing, incoming;
  std::function<void(int rank, Values& inputs)> inputs;
  std::function<void(Plan&)> spoil;
  const char* node;        // first drift
  std::int64_t row, head;  // -1: not looked at
  const char* engine = "cpu";
};
void PrintTo(const ControlRow& row, std::ostream* out) { *out << row.name << '_' << row.engine; }

struct Control : testing::TestWithParam<ControlRow> {
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
};

TEST_P(Control, drifts_first_where_it_was_planted) {
  const ControlRow& row = GetParam();
  ParallelRequest request = request_of({"narrow", "tiny", row.engine, row.plan, row.ranks});
  request.backward = false;
  const OneRank& one = one_rank(request);
  Plan plan = plan_of(request);
  if (row.spoil) row.spoil(plan);
  std::vector<RankReport> reports(std::size_t(row.ranks));
  run_logical_ranks(row.ranks, std::chrono::minutes(1), [&](Exchange& inner) {
    Tampered exchange(inner, row.outgoing, row.incoming);
    RankFaults faults;
    faults.any_plan = true;
    if (row.inputs) faults.inputs = [&](Values& inputs) { row.inputs(inner.rank(), inputs); };
    reports[std::size_t(inner.rank())] = run_rank(request, one, plan, exchange, faults);
  });
  const auto drift = first_drift(reports);
  ASSERT_TRUE(drift) << "nothing noticed the fault";
  RecordProperty("first_drift", drift->to_string());
  EXPECT_EQ(drift->node, row.node) << drift->to_string();
  if (row.row >= 0) {
    EXPECT_EQ(drift->row, row.row) << drift->to_string();
  }
  if (row.head >= 0) {
    EXPECT_EQ(drift->head, row.head) << drift->to_string();
  }
}

// 264 rows: 37 or 38 for each of seven ranks, 88 for each of three.
const ControlRow kControls[] = {
    {"uneven_split_loses_a_row",
     "tensor",
     7,
     {},
     [](int rank, const std::string& node, std::vector<Tensor>& in) {  // as if every rank had S / 7 rows
       if (node == "q_proj" && rank == 0)
         std::memset(in[6].row_range(37, 1).bytes(), 0, 2 * std::size_t(in[6].cols()));
     },
     {},
     {},
     "q_proj",
     263,
     0},
    {"head_on_the_wrong_rank",
     "sequence",
     3,
     [](int rank, const std::string& node, std::vector<Tensor>& out) {
       if (node == "attention" && rank == 0) std::swap(out[1], out[2]);
     },
     {},
     {},
     {},
     "attention",
     0,
     3},
    {"partial_sums_added_by_a_collective",
     "tensor",
     3,
     {},
     {},
     {},
     [](Plan& plan) { plan.summed_by_a_collective = {"o_proj"}; },
     "o_proj",
     -1,
     -1},
    {"metadata_not_co_sharded",
     "tensor",
     3,
     {},
     {},
     [](int rank, Values& inputs) {  // rank 1 describes its rows 88..175 by those of 89..175 and 175
       if (rank != 1) return;
       auto indices = inputs.at("adaln_indices").clone();
       const auto values = indices.values<std::int64_t>();
       std::copy(values.begin() + 1, values.end(), values.begin());
       inputs["adaln_indices"] = indices;
     },
     {},
     "norm1",
     103,
     -1},
    {"rotary_table_not_co_sharded",
     "sequence",
     3,
     {},
     {},
     [](int rank, Values& inputs) {
       if (rank != 2) return;
       auto table = inputs.at("rotary_cos").clone();
       std::memmove(table.bytes(), table.row_range(1, 87).bytes(), table.row_range(1, 87).size_bytes());
       inputs["rotary_cos"] = table;
     },
     {},
     "rope_q",
     176,
     -1},
    {"key_blocks_in_ring_order",
     "context",
     3,
     {},
     {},
     {},
     [](Plan& plan) {
       plan.key_blocks = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
     },
     "attention",
     88,
     -1},
    {"key_blocks_reversed_on_one_rank",
     "context",
     3,
     {},
     {},
     {},
     [](Plan& plan) {
       plan.key_blocks[2] = {2, 1, 0};
     },
     "attention",
     176,
     -1},
};
INSTANTIATE_TEST_SUITE_P(parallel, Control, testing::ValuesIn(kControls), kRowName);
#ifdef H3_HAVE_CUDA
// Those that do not write into a tensor where the CPU could.
std::vector<ControlRow> cuda_controls() {
  std::vector<ControlRow> rows;
  for (ControlRow row : kControls)
    if (const std::string name = row.name;
        name != "uneven_split_loses_a_row" && name != "rotary_table_not_co_sharded") {
      row.engine = "cuda";
      rows.push_back(row);
    }
  return rows;
}
INSTANTIATE_TEST_SUITE_P(parallel_cuda, Control, testing::ValuesIn(cuda_controls()), kRowName);
#endif

struct RejectedRow {
  const char* name;
  const char* plan;
  std::function<void(Plan&)> spoil;
  std::function<void(int rank, Holding&)> declare;
  const char* says;
};
void PrintTo(const RejectedRow& row, std::ostream* out) { *out << row.name; }

struct Rejected : testing::TestWithParam<RejectedRow> {};

// Through the run itself, as a user meets it.
TEST_P(Rejected, as_non_comparable_before_anything_runs) {
  const RejectedRow& row = GetParam();
  ParallelRequest request = request_of({"narrow", "tiny", "cpu", row.plan, 3});
  request.backward = false;
  Plan plan = plan_of(request);
  if (row.spoil) row.spoil(plan);
  const auto run = [&] {
    run_logical_ranks(request, one_rank(request), plan, [&](int rank) {
      RankFaults faults;
      if (row.declare) faults.declared = [&row, rank](Holding& holding) { row.declare(rank, holding); };
      return faults;
    });
  };
  EXPECT_TRUE(fails_naming(run, {"not comparable with one rank: ", row.says}));
}

const RejectedRow kRejected[] = {
    {"partial_sums_added_by_a_collective",
     "tensor",
     [](Plan& plan) { plan.summed_by_a_collective = {"o_proj"}; },
     {},
     "node o_proj adds the sums of 3 ranks"},
    {"key_block_lost",
     "context",
     [](Plan& plan) {
       plan.key_blocks[1] = {0, 1};
     },
     {},
     "rank 1 takes the key blocks 0 1, expected each of 3 once"},
    {"key_block_twice",
     "context",
     [](Plan& plan) {
       plan.key_blocks[2] = {0, 1, 1};
     },
     {},
     "rank 2 takes the key blocks 0 1 1"},
    {"row_lost",
     "sequence",
     {},
     [](int rank, Holding& holding) {
       if (rank == 2) holding.items["rows"].pop_back();
     },
     "item 263 of rows has no owner"},
    {"head_on_the_wrong_rank",
     "tensor",
     {},
     [](int rank, Holding& holding) {
       auto& heads = holding.items["heads"];
       if (rank == 0) heads.pop_back();
       if (rank == 1) heads.insert(heads.begin(), 2);
     },
     "item 2 of heads is owned by rank 1, expected rank 0"},
    {"metadata_not_co_sharded",
     "tensor",
     {},
     [](int rank, Holding& holding) {
       auto& indices = holding.items["adaln_indices"];
       if (rank == 1) indices.push_back(176);
       if (rank == 2) indices.erase(indices.begin());
     },
     "adaln_indices of row 176 lies on rank 1, its row on rank 2: not co-sharded"},
};
INSTANTIATE_TEST_SUITE_P(parallel, Rejected, testing::ValuesIn(kRejected), kRowName);

}  // namespace
}  // namespace h3
