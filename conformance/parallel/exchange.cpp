// Gate parallel: exchanges between ranks. They move bytes, count them, and name the rank that does not come.
#include "harness/parallel/exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <ostream>
#include <thread>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/parallel/runs.h"
#include "model/named_configs.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

// An all-gather of one float each.
void gather(Exchange& exchange, const std::string& place, std::int64_t own_floats = 1) {
  Tensor mine(DType::fp32, {own_floats});
  for (float& value : mine.values<float>()) value = float(exchange.rank());
  std::vector<Tensor> out(std::size_t(exchange.ranks()), mine), in(out.size());
  for (Tensor& part : in) part = Tensor(DType::fp32, {1});
  exchange.swap(place, out, in);
  for (int rank = 0; rank < exchange.ranks(); ++rank)
    if (rank != exchange.rank())
      require(in[std::size_t(rank)].at(0) == float(rank), "not the part of rank {}", rank);
}

struct FaultRow {
  const char* name;
  std::function<void(Exchange&)> body;
  std::vector<std::string> says;
};
void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.name; }

struct FaultyRank : testing::TestWithParam<FaultRow> {};

TEST_P(FaultyRank, is_named) {
  const auto run = [&] { run_logical_ranks(4, std::chrono::milliseconds(500), GetParam().body); };
  for (const std::string& part : GetParam().says) EXPECT_TRUE(fails_naming(run, {part}));
}

const FaultRow kFaults[] = {
    {"hangs",
     [](Exchange& exchange) {
       gather(exchange, "q_proj");
       if (exchange.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
       gather(exchange, "o_proj");
     },
     {"exchange 'o_proj': rank 2 has not come within 500 ms"}},
    {"ends_early",
     [](Exchange& exchange) {
       if (exchange.rank() != 1) gather(exchange, "q_proj");
     },
     {"exchange 'q_proj': rank 1 has ended before it"}},
    {"comes_to_another_exchange",
     [](Exchange& exchange) { gather(exchange, exchange.rank() == 3 ? "k_proj" : "q_proj"); },
     {"ranks came to different exchanges: rank 0 at 'q_proj'", "rank 3 at 'k_proj'"}},
    {"sends_another_size",
     [](Exchange& exchange) { gather(exchange, "q_proj", exchange.rank() == 1 ? 2 : 1); },
     {"exchange 'q_proj': rank 1 sends 8 bytes, rank", "expects 4"}},
    {"fails",
     [](Exchange& exchange) {
       if (exchange.rank() == 3) fail("no memory on rank 3");
       gather(exchange, "q_proj");
     },
     {"no memory on rank 3"}},
};
INSTANTIATE_TEST_SUITE_P(parallel, FaultyRank, testing::ValuesIn(kFaults), kRowName);

struct MoveRow {
  const char* name;
  Layout from, to;
  Extent extent;
  int ranks;
  std::int64_t received;  // bytes of bf16 that all ranks together receive
};
void PrintTo(const MoveRow& row, std::ostream* out) { *out << row.name << "_ranks" << row.ranks; }

struct Redistribution : testing::TestWithParam<MoveRow> {};

// Every cell lands where its new owner looks for it, and only what was elsewhere moves.
TEST_P(Redistribution, moves_every_cell_once) {
  const MoveRow row = GetParam();
  Config config = config_named("narrow");
  const Ownership ownership(config, 264, row.ranks);
  const Tensor whole = synthetic_activation(7, "cells", {row.extent.rows, row.extent.cols}, DType::bf16);
  const Part all = part_of(ownership, kWhole, row.extent, 0);
  std::atomic<std::int64_t> received = 0;
  run_logical_ranks(row.ranks, std::chrono::minutes(1), [&](Exchange& exchange) {
    const Part held = part_of(ownership, row.from, row.extent, exchange.rank());
    const Tensor mine = held.height() > 0 ? cut(whole, all, held) : Tensor(DType::bf16, {0, 0});
    const Tensor moved = redistribute(mine, ownership, row.from, row.to, row.extent, exchange, "cells");
    const Part wanted = part_of(ownership, row.to, row.extent, exchange.rank());
    require(wanted.height() == 0 || bitwise_equal(cut(whole, all, wanted), moved), "rank {}: other cells",
            exchange.rank());
    received += exchange.traffic().total();
  });
  EXPECT_EQ(received, row.received);
}

// 2 bytes x 264 rows; heads are 1152 columns, rank shares of 7: heads 1 1 1 1 2 1 2.
constexpr Extent kByHeads = {264, 1152}, kWeight = {1152, 264}, kGateUp = {264, 1168};
const MoveRow kMoves[] = {
    {"all_gather", rows_by(Kind::rows), kWhole, kByHeads, 4, 3 * 2 * 264 * 1152},
    {"all_gather_uneven", rows_by(Kind::rows), kWhole, kByHeads, 7, 6 * 2 * 264 * 1152},
    {"all_gather_of_columns", columns_by(Kind::heads), kWhole, kByHeads, 7, 6 * 2 * 264 * 1152},
    {"sequence_for_heads", rows_by(Kind::rows), columns_by(Kind::heads), kByHeads, 3, 2 * 2 * 264 * 1152 / 3},
    {"sequence_for_heads_alone", rows_by(Kind::rows), columns_by(Kind::heads), kByHeads, 1, 0},
    {"heads_for_sequence", columns_by(Kind::heads), rows_by(Kind::rows), kByHeads, 3, 2 * 2 * 264 * 1152 / 3},
    {"value_and_gate", columns_by(Kind::ffn_channels), kWhole, kGateUp, 8, 7 * 2 * 264 * 1168},
    {"weight_from_outputs_to_inputs", rows_by(Kind::heads), columns_by(Kind::hidden_channels), kWeight, 3,
     2 * 2 * 1152 * 264 / 3},
    {"scatter", kRoot, rows_by(Kind::rows), kByHeads, 3, 2 * 2 * 264 * 1152 / 3},
    {"gather_on_rank_0", rows_by(Kind::rows), kRoot, kByHeads, 3, 2 * 2 * 264 * 1152 / 3},
    {"whole_to_its_parts", kWhole, columns_by(Kind::heads), kByHeads, 8, 0},
};
INSTANTIATE_TEST_SUITE_P(parallel, Redistribution, testing::ValuesIn(kMoves), kRowName);

}  // namespace
}  // namespace h3
