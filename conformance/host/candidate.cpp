// The door for other people's kernels: a library in the place of nodes of a block, of its backward and of the
// whole model, right and wrong, and libraries that are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "conformance/block0/runs.h"
#include "conformance/host/planted_block.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "harness/execution/execution_candidate.h"
#include "harness/full_model/full_model.h"
#include "harness/replay/replay_backward.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

struct CandidateRow {
  const char *name, *library;
  std::vector<std::string> arguments;
  int exit_code;
  std::vector<std::string> says;
};
void PrintTo(const CandidateRow& row, std::ostream* out) { *out << row.name; }

const std::filesystem::path& build() {
  static const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return folder;
}

// Exit code and output of h3.
std::pair<int, std::string> h3_answers(std::vector<std::string> arguments, const std::string& log) {
  arguments.insert(arguments.begin(), build() / "h3");
  const auto end = gate::run_to_end({.arguments = arguments, .output_file = log, .time_limit = 300});
  return {end.exit_code, gate::read_file(log)};
}

const std::vector<std::string> kReplay = {"replay", "--layout", "tiny", "--no-golden", "--no-batch-rows"},
                               kFullModel = {"fullmodel", "--block0-receipt"};

struct CandidateEngine : testing::TestWithParam<CandidateRow> {};

TEST_P(CandidateEngine, answers) {
  const Scratch scratch;
  std::vector<std::string> arguments = GetParam().arguments;
  if (arguments == kFullModel) {
    arguments.push_back(scratch.path("receipt.json"));
    write_file(scratch.path("receipt.json"), R"({"gate": "block0", "verdict": "closed"})");
  }
  arguments.insert(arguments.end(), {"--engine", build() / GetParam().library});
  const auto [code, output] = h3_answers(arguments, scratch.path("log"));
  EXPECT_EQ(code, GetParam().exit_code) << output;
  for (const auto& text : GetParam().says)
    EXPECT_NE(output.find(text), std::string::npos) << text << "\n" << output;
}

const CandidateRow kCandidates[] = {
    {"all_graphs_of_the_model",
     "libh3_example_candidate.so",
     kFullModel,
     0,
     {"engine example: residuals", "99 of 112 row, 13 candidate; backward 103 of 112 row, 9 candidate",
      "first_forward_drift:  none", "first_backward_drift: none", "verdict               closed"}},
    {"version_1_has_its_forward_in_the_blocks",
     "libh3_example_candidate_version_1.so",
     kFullModel,
     0,
     {"104 of 112 row, 8 candidate; backward 112 of 112 row", "verdict               closed"}},
    {"a_cut_in_the_refiner_is_named_there",
     "libh3_example_candidate_cut.so",
     kFullModel,
     1,
     {"first_forward_drift:  token_refiner.refiner_blocks.0.residual_mlp by token_refiner.refiner_blocks.0: "
      "other bytes than the CPU twin, first of residual_attn"}},
    {"a_wrong_backward_is_named_there",
     "libh3_example_candidate_ungated.so",
     kFullModel,
     1,
     {"first_forward_drift:  none",
      "by transformer_blocks.3: other bytes than the CPU twin, first of the backward of residual_mlp"}},
    {"no_such_file", "libh3_no_such_candidate.so", kReplay, 2, {"libh3_no_such_candidate.so", "cannot open"}},
    {"another_version", "libh3_other_version.so", kReplay, 2, {"interface version 99, expected 1 to 2"}},
    {"no_candidate", "libh3_no_candidate.so", kReplay, 2, {"the library has no h3_candidate_abi"}},
    {"no_node", "libh3_nothing_computed.so", kReplay, 2, {"computes none of the nodes"}},
    {"a_backward_that_is_not_there",
     "libh3_no_backward.so",
     kReplay,
     2,
     {"the library has no h3_candidate_backward"}},
};

INSTANTIATE_TEST_SUITE_P(host, CandidateEngine, testing::ValuesIn(kCandidates),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// Without a GPU it is refused; with one it gets its tensors there, and says itself that it computes nothing.
struct CandidateOfDeviceMemory : testing::TestWithParam<const char*> {};

TEST_P(CandidateOfDeviceMemory, asks_for_a_gpu) {
  const Scratch scratch;
  std::vector<std::string> arguments = kReplay;
  arguments.insert(arguments.end(), {"--engine", build() / GetParam()});
  const auto [code, output] = h3_answers(arguments, scratch.path("log"));
  EXPECT_EQ(code, 2) << output;
  EXPECT_EQ(std::ranges::count(output, '\n'), 1) << output;
  EXPECT_NE(output.find(why_not("cuda").empty() ? "node adaln_projection: not computed"
                                                : "takes device memory: engine 'cuda': "),
            std::string::npos)
      << output;
}

INSTANTIATE_TEST_SUITE_P(host, CandidateOfDeviceMemory, testing::Values("libh3_device_memory.so"),
                         [](const auto&) { return "device_memory"; });

// A block's backward, walked as by h3 replay --backward, at reduced widths.
struct CandidateBackwardRow {
  const char *name, *library;
  std::int64_t candidates;
  const char *drift, *by;  // empty: none
};
void PrintTo(const CandidateBackwardRow& row, std::ostream* out) { *out << row.name; }

struct CandidateBackward : testing::TestWithParam<CandidateBackwardRow> {};

TEST_P(CandidateBackward, is_bound_and_judged) {
  constexpr double kBound = 5e-2;  // of relative L2; the faults are beyond a half
  const PlantedBlock block;
  const auto engine = candidate_execution(build() / GetParam().library, block.config),
             golden = golden_execution(false, block.config);
  Values truth = widened(block.inputs);
  for (const Node& node : block.graph.nodes)
    truth[node.name] = golden->run(node, pick(node.inputs, truth), load(node.parameters, *block.weights));
  ReplayRequest asked;
  asked.repeat = true;
  const auto bounded = [&](const std::string&, const Tensor&, const Tensor&, const std::string&) {
    return RecordedVerdict{{.relative_l2 = kBound}};
  };
  const BackwardReport report =
      examine_backward({block.graph, *engine, golden.get(), block.run(*engine), truth,
                        stand_in_output_gradient(block.layout, block.config, kDefaultSeed),
                        [&](const Node& node) { return load(node.parameters, *block.weights); }},
                       asked, bounded);
  EXPECT_EQ(report.bindings().candidate, GetParam().candidates);
  EXPECT_TRUE(report.bindings().complete());
  const auto drift = report.first_golden_drift();
  EXPECT_EQ(drift ? drift->node : "", GetParam().drift);
  EXPECT_EQ(report.accepted(), !drift);
  EXPECT_NE((drift ? drift->detail : "").find(GetParam().by), std::string::npos);
}

const CandidateBackwardRow kBackwards[] = {
    {"right", "libh3_example_candidate.so", 2, "", ""},
    {"without_its_gate", "libh3_example_candidate_ungated.so", 2, "ffn_down", "by residual_mlp"},
    {"none_of_version_1", "libh3_example_candidate_version_1.so", 0, "", ""},
};
INSTANTIATE_TEST_SUITE_P(host, CandidateBackward, testing::ValuesIn(kBackwards),
                         [](const auto& info) { return testing::PrintToString(info.param); });

struct CandidateCapsuleRow {
  CandidateRow row;
  const char* looks_like;  // empty: there is no capsule
};
void PrintTo(const CandidateCapsuleRow& row, std::ostream* out) { PrintTo(row.row, out); }

struct CandidateCapsule : testing::TestWithParam<CandidateCapsuleRow> {};

TEST_P(CandidateCapsule, holds_the_drift) {
  const auto& [row, looks_like] = GetParam();
  const Scratch scratch;
  const std::string library = build() / row.library;
  std::vector<std::string> arguments = row.arguments;
  arguments.insert(arguments.end(), {"--engine", library, "--capsule", scratch.path("capsules")});
  const auto [exit_code, output] = h3_answers(arguments, scratch.path("log"));
  EXPECT_EQ(exit_code, row.exit_code) << output;
  for (const auto& text : row.says) EXPECT_NE(output.find(text), std::string::npos) << text << "\n" << output;
  EXPECT_EQ(std::filesystem::exists(scratch.path("capsules")), *looks_like != 0);
  if (!*looks_like) return;
  const auto replayed = [&](std::vector<std::string> engine) {
    engine.insert(engine.begin(),
                  {"capsule", "replay", scratch.path("capsules/transformer_blocks.0.residual_attn.h5")});
    return h3_answers(engine, scratch.path("replayed"));
  };
  const auto [code, text] = replayed({});
  EXPECT_EQ(code, 1) << text;
  EXPECT_NE(text.find(looks_like), std::string::npos) << text;
  EXPECT_EQ(replayed({"--engine", library}).first, 1) << "the fault is still there";
  EXPECT_EQ(replayed({"--engine", build() / "libh3_example_candidate.so"}).first, 0) << "and here it is gone";
}

const CandidateCapsuleRow kCandidateCapsules[] = {
    {{"none_of_right_kernels",
      "libh3_example_candidate.so",
      kReplay,
      0,
      {"engine example: residuals", "residual_attn     adaln_gate_residual      candidate",
       "residual_mlp      adaln_gate_residual      candidate", "first_drift:          none",
       "capsule               none"}},
     ""},
    {{"of_a_fused_one_where_it_drifts",
      "libh3_example_candidate_fused.so",
      kReplay,
      1,
      {"engine example: residuals, fused", "first_drift:          residual_attn"}},
     "like every step wide, one rounding at the end"},
};
INSTANTIATE_TEST_SUITE_P(host, CandidateCapsule, testing::ValuesIn(kCandidateCapsules),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
