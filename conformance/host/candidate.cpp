// The door for other people's kernels: a library in the place of two nodes, right and wrong, and libraries
// that are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"

namespace h3 {
namespace {

struct CandidateRow {
  const char *name, *library;
  int exit_code;
  std::vector<std::string> says;
  const char* looks_like = "";  // of its capsule; empty: there is none
};
void PrintTo(const CandidateRow& row, std::ostream* out) { *out << row.name; }

struct CandidateReplay : testing::TestWithParam<CandidateRow> {};

TEST_P(CandidateReplay, answers) {
  const std::filesystem::path build = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const Scratch scratch;
  const auto end = gate::run_to_end(
      {.arguments = {build / "h3", "replay", "--layout", "tiny", "--no-golden", "--no-batch-rows", "--engine",
                     build / GetParam().library, "--capsule", scratch.path("capsules")},
       .output_file = scratch.path("log"),
       .time_limit = 300});
  const std::string output = gate::read_file(scratch.path("log"));
  EXPECT_EQ(end.exit_code, GetParam().exit_code) << output;
  for (const auto& text : GetParam().says)
    EXPECT_NE(output.find(text), std::string::npos) << text << "\n" << output;
  EXPECT_EQ(std::filesystem::exists(scratch.path("capsules")), *GetParam().looks_like != 0);
  if (!*GetParam().looks_like) return;
  const std::string file = scratch.path("capsules/transformer_blocks.0.residual_attn.h5");
  const auto replayed = [&](std::vector<std::string> engine) {
    engine.insert(engine.begin(), {build / "h3", "capsule", "replay", file});
    const auto again =
        gate::run_to_end({.arguments = engine, .output_file = scratch.path("replayed"), .time_limit = 60});
    return std::pair(again.exit_code, gate::read_file(scratch.path("replayed")));
  };
  const auto [code, text] = replayed({});
  EXPECT_EQ(code, 1) << text;
  EXPECT_NE(text.find(GetParam().looks_like), std::string::npos) << text;
  EXPECT_EQ(replayed({"--engine", build / GetParam().library}).first, 1) << "the fault is still there";
  EXPECT_EQ(replayed({"--engine", build / "libh3_example_candidate.so"}).first, 0) << "and here it is gone";
}

const CandidateRow kCandidates[] = {
    {"right_kernels_are_accepted",
     "libh3_example_candidate.so",
     0,
     {"engine example: gated residuals", "residual_attn     adaln_gate_residual      candidate",
      "residual_mlp      adaln_gate_residual      candidate", "first_drift:          none",
      "capsule               none"}},
    {"a_fused_one_drifts_where_it_is",
     "libh3_example_candidate_fused.so",
     1,
     {"engine example: gated residuals, fused", "first_drift:          residual_attn"},
     "like every step wide, one rounding at the end"},
    {"no_such_file", "libh3_no_such_candidate.so", 2, {"libh3_no_such_candidate.so", "cannot open"}},
    {"another_version", "libh3_other_version.so", 2, {"interface version 99, expected 1"}},
    {"no_candidate", "libh3_no_candidate.so", 2, {"the library has no h3_candidate_abi"}},
};

INSTANTIATE_TEST_SUITE_P(host, CandidateReplay, testing::ValuesIn(kCandidates),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
