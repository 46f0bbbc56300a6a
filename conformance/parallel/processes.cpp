// Gate parallel: ranks as processes. They meet in a folder, name the one that hangs or fails, and have the
// bytes of one rank; through files on any machine, through NCCL with a GPU for each.
#include <filesystem>
#include <functional>
#include <ostream>
#include <thread>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/parallel/runs.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "harness/parallel/exchange_nccl.h"
#include "model/named_configs.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct Answer {
  int exit_code;
  std::string output;
};

Answer h3_parallel(std::vector<std::string> options) {
  const Scratch scratch;
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").parent_path() / "h3",
                                    "parallel"};
  words.insert(words.end(), options.begin(), options.end());
  const auto end =
      gate::run_to_end({.arguments = words, .output_file = scratch.path("log"), .time_limit = 300});
  return {end.exit_code, gate::read_file(scratch.path("log"))};
}

// Each rank in a thread here, as its process would: with a view of the folder of its own.
void run_as_processes(int ranks, TimeLimit limit, const std::function<void(int rank, MeetingPlace&)>& body) {
  const Scratch scratch;
  MeetingPlace::create(scratch.folder(), ranks);
  run_logical_ranks(ranks, std::chrono::minutes(1), [&](Exchange& exchange) {
    MeetingPlace place(scratch.folder(), ranks, limit);
    body(exchange.rank(), place);
  });
}

struct MeetingRow {
  const char* name;
  std::function<void(int rank, MeetingPlace&)> body;
  const char* says;
};
void PrintTo(const MeetingRow& row, std::ostream* out) { *out << row.name; }

struct FaultyMeeting : testing::TestWithParam<MeetingRow> {};

TEST_P(FaultyMeeting, names_the_rank) {
  const auto run = [&] { run_as_processes(3, std::chrono::milliseconds(1500), GetParam().body); };
  EXPECT_TRUE(fails_naming(run, {GetParam().says}));
}

const MeetingRow kMeetings[] = {
    {"hangs",
     [](int rank, MeetingPlace& place) {
       place.meet(rank, "q_proj");
       if (rank != 1) place.meet(rank, "o_proj");
     },
     "exchange 'o_proj': rank 1 has not come within 1500 ms, last seen after exchange 'q_proj'"},
    {"never_comes",
     [](int rank, MeetingPlace& place) {
       if (rank != 2) place.meet(rank, "q_proj");
     },
     "rank 2 has not come within 1500 ms, last seen before its first exchange"},
    {"fails",
     [](int rank, MeetingPlace& place) {
       if (rank == 0) return place.fail(0);
       place.meet(rank, "q_proj");
     },
     "exchange 'q_proj': rank 0 has failed"},
    {"comes_to_another_exchange",
     [](int rank, MeetingPlace& place) { place.meet(rank, rank == 2 ? "k_proj" : "q_proj"); },
     "ranks came to different exchanges"},
};
INSTANTIATE_TEST_SUITE_P(parallel, FaultyMeeting, testing::ValuesIn(kMeetings), kRowName);

struct RanksOnly {
  int ranks;
};
void PrintTo(const RanksOnly& row, std::ostream* out) { *out << "ranks" << row.ranks; }

struct FileExchanges : testing::TestWithParam<RanksOnly> {};

TEST_P(FileExchanges, move_every_cell_once) {
  const int ranks = GetParam().ranks;
  const Extent extent = {264, 1152};
  const Ownership ownership(config_named("narrow"), extent.rows, ranks);
  const Tensor whole = synthetic_activation(7, "cells", {extent.rows, extent.cols}, DType::bf16);
  const Part all = part_of(ownership, kWhole, extent, 0);
  run_as_processes(ranks, std::chrono::minutes(1), [&](int rank, MeetingPlace& place) {
    const auto exchange = file_exchange(rank, place);
    const Layout from = rows_by(Kind::rows), to = columns_by(Kind::heads);
    const Tensor mine = cut(whole, all, part_of(ownership, from, extent, rank));
    for (int round = 0; round < 3; ++round) {
      const Tensor moved = redistribute(mine, ownership, from, to, extent, *exchange, "there");
      require(bool(bitwise_equal(cut(whole, all, part_of(ownership, to, extent, rank)), moved)),
              "other cells");
      const Tensor back = redistribute(moved, ownership, to, from, extent, *exchange, "and back");
      require(bool(bitwise_equal(mine, back)), "other cells back");
    }
    const std::vector<std::string> said = exchange->announce("names", "rank " + std::to_string(rank));
    for (int other = 0; other < ranks; ++other)
      require(said[std::size_t(other)] == "rank " + std::to_string(other), "'{}' from rank {}",
              said[std::size_t(other)], other);
  });
}
INSTANTIATE_TEST_SUITE_P(parallel, FileExchanges, testing::ValuesIn(std::vector<RanksOnly>{{1}, {2}, {7}}),
                         kRowName);

struct CommandRow {
  const char* name;
  std::vector<std::string> options;
  int exit_code;
  std::vector<std::string> says;
};
void PrintTo(const CommandRow& row, std::ostream* out) { *out << row.name; }

struct ParallelCommand : testing::TestWithParam<CommandRow> {};

TEST_P(ParallelCommand, answers) {
  const Answer answer = h3_parallel(GetParam().options);
  EXPECT_EQ(answer.exit_code, GetParam().exit_code) << answer.output;
  for (const std::string& part : GetParam().says)
    EXPECT_NE(answer.output.find(part), std::string::npos) << part << "\nin\n" << answer.output;
}

const CommandRow kCommands[] = {
    {"processes_tensor",
     {"--config", "narrow", "--ranks", "3", "--processes"},
     0,
     {"3 ranks (one process each, files)", "byte-equal to one rank"}},
    {"processes_sequence",
     {"--config", "narrow", "--ranks", "2", "--processes", "--plan", "sequence"},
     0,
     {"byte-equal to one rank"}},
    {"logical_with_bytes",
     {"--config", "narrow", "--ranks", "2", "--forward", "--bytes"},
     0,
     {"logical, one process", "usual MB", "byte-equal to one rank"}},
    {"rank_that_hangs",
     {"--config", "narrow", "--ranks", "3", "--processes", "--forward", "--fault", "hang", "--time-limit",
      "8"},
     2,
     {"exchange 'what every rank holds': rank 2 has not come within 8000 ms", "killed, because a rank failed",
      "rank 2 before its first exchange"}},
    {"row_lost",
     {"--config", "narrow", "--ranks", "3", "--processes", "--forward", "--fault", "lost-row"},
     2,
     {"not comparable with one rank: item 263 of rows has no owner, expected rank 2"}},
    {"head_owned_elsewhere",
     {"--config", "narrow", "--ranks", "3", "--processes", "--forward", "--fault", "wrong-owner"},
     2,
     {"not comparable with one rank: item 0 of heads is owned twice, by rank 0 and rank 2"}},
    {"metadata_not_co_sharded",
     {"--config", "narrow", "--ranks", "2", "--processes", "--forward", "--fault", "metadata"},
     2,
     {"not comparable with one rank: adaln_indices of row 0 is owned twice, by rank 0 and rank 1"}},
    {"unknown_fault",
     {"--config", "narrow", "--processes", "--fault", "sleep"},
     2,
     {"--fault sleep: expected hang, lost-row, wrong-owner, metadata"}},
    {"more_ranks_than_heads", {"--config", "narrow", "--ranks", "10"}, 2, {"10 ranks: there are 9 heads"}},
    {"unknown_plan",
     {"--config", "narrow", "--plan", "pipeline"},
     2,
     {"plan 'pipeline': expected tensor, sequence, context"}},
};
INSTANTIATE_TEST_SUITE_P(parallel, ParallelCommand, testing::ValuesIn(kCommands), kRowName);

#ifdef H3_HAVE_CUDA
// One GPU is enough for one rank; the gate of several GPUs takes all that are there.
struct NcclRow {
  const char* name;
  int least_gpus;
  std::vector<std::string> options;
  int exit_code;
  std::vector<std::string> says;
};
void PrintTo(const NcclRow& row, std::ostream* out) { *out << row.name; }

struct NcclCommand : testing::TestWithParam<NcclRow> {
  void SetUp() override {
    H3_NEEDS_ENGINE("cuda");
    if (const std::string why = why_no_nccl(GetParam().least_gpus); !why.empty())
      GTEST_SKIP() << "no_device: " << why;
  }
};

TEST_P(NcclCommand, answers) {
  std::vector<std::string> options = GetParam().options;
  options.push_back("--nccl");
  const Answer answer = h3_parallel(options);
  EXPECT_EQ(answer.exit_code, GetParam().exit_code) << answer.output;
  for (const std::string& part : GetParam().says)
    EXPECT_NE(answer.output.find(part), std::string::npos) << part << "\nin\n" << answer.output;
  RecordProperty("gpus", std::to_string(gpu_count()));
}

const NcclRow kOneRank[] = {
    {"one_rank_tensor",
     1,
     {"--ranks", "1"},
     0,
     {"one process and GPU each, NCCL 2.", "byte-equal to one rank"}},
    {"one_rank_sequence", 1, {"--ranks", "1", "--plan", "sequence"}, 0, {"byte-equal to one rank"}},
};
INSTANTIATE_TEST_SUITE_P(parallel_cuda, NcclCommand, testing::ValuesIn(kOneRank), kRowName);

std::vector<NcclRow> several() {
  std::vector<NcclRow> rows;
  const auto add = [&](const std::string& layout, const std::string& plan, const char* name) {
    rows.push_back({name,
                    2,
                    {"--ranks", "0", "--layout", layout, "--plan", plan, "--bytes"},
                    0,
                    {"NCCL 2.", "byte-equal to one rank"}});
  };
  add("tiny", "tensor", "tiny_tensor");
  add("tiny", "sequence", "tiny_sequence");
  add("tiny", "context", "tiny_context");
  add("small", "tensor", "small_tensor");
  add("small", "sequence", "small_sequence");
  add("medium", "tensor", "medium_tensor");
  add("medium", "sequence", "medium_sequence");
  rows.push_back({"rank_that_hangs",
                  2,
                  {"--ranks", "0", "--forward", "--fault", "hang", "--time-limit", "20"},
                  2,
                  {"exchange 'what every rank holds': rank", "has not come within 20000 ms"}});
  const auto reject = [&](const char* name, const char* fault, const char* says) {
    rows.push_back({name,
                    2,
                    {"--ranks", "0", "--layout", "small", "--forward", "--fault", fault},
                    2,
                    {"not comparable with one rank: ", says}});
  };
  reject("row_lost", "lost-row", "item 924 of rows has no owner");
  reject("head_owned_elsewhere", "wrong-owner", "item 0 of heads is owned twice");
  reject("metadata_not_co_sharded", "metadata", "adaln_indices of row 0 is owned twice");
  return rows;
}
INSTANTIATE_TEST_SUITE_P(parallel_nccl, NcclCommand, testing::ValuesIn(several()), kRowName);
#endif

}  // namespace
}  // namespace h3
