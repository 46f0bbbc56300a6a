// Runs that are killed and resumed: the bytes of a run that was left alone, or a refusal of one line.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>

#include "conformance/block0/runs.h"
#include "conformance/errors.h"
#include "conformance/generation/reduced.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

// ---- a whole seed, preempted

struct PreemptedRow {
  const char* contract;
  std::uint64_t seed;
  const char* engine;
  std::int64_t kills;
};
void PrintTo(const PreemptedRow& row, std::ostream* out) {
  std::string name = row.contract;
  std::ranges::replace(name, '-', '_');
  *out << name << "_seed_" << row.seed << "_" << row.engine;
}

class PreemptedRun : public testing::TestWithParam<PreemptedRow> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
};

// Killed at random moments, resumed, the last saved step verified each time: every promised file is that of
// the run beside it which nobody touched; without a GPU its trajectory verifies, and the two compare as the
// same.
TEST_P(PreemptedRun, ends_with_the_bytes_of_an_uninterrupted_one) {
  const PreemptedRow& row = GetParam();
  const Scratch scratch;
  const std::string whole = scratch.path("whole"), preempted = scratch.path("preempted");
  const std::int64_t evaluations = read_contract(contract_file(row.contract)).evaluations();
  const auto run_into = [&](const std::string& folder) {
    return std::vector<std::string>{
        "run",      "--contract", row.contract, "--seed", std::to_string(row.seed),
        "--engine", row.engine,   "--out",      folder};
  };
  const Ended alone = run_h3(scratch, run_into(whole));
  ASSERT_EQ(alone.end.exit_code, 0) << alone.output;

  std::mt19937_64 random(row.seed);
  std::int64_t killed = 0;
  std::vector<std::string> arguments = run_into(preempted);
  for (std::int64_t kill = 0; kill < row.kills; ++kill) {
    const std::int64_t share = evaluations / row.kills;
    const auto until =
        kill * share + std::int64_t(random() % std::uint64_t(std::max<std::int64_t>(share / 2, 1)));
    gate::Command command;
    command.kill_when = [&] { return saved_steps(preempted) > until; };
    killed += run_h3(scratch, arguments, command).end.signal == SIGKILL;
    ASSERT_TRUE(fs::exists(preempted + "/run.json"));
    arguments = {"resume", preempted, "--verify-last-step"};
  }
  EXPECT_EQ(killed, row.kills);
  EXPECT_LT(saved_steps(preempted), evaluations);
  const Ended last = run_h3(scratch, arguments);
  ASSERT_EQ(last.end.exit_code, 0) << last.output;

  const auto expected = promised_files(whole);
  EXPECT_EQ(std::int64_t(expected.size()), 2 + 2 * evaluations + 1);
  EXPECT_EQ(promised_files(preempted), expected);
  const Ended verified = run_h3_without_gpu(scratch, {"verify", preempted});
  EXPECT_EQ(verified.end.exit_code, 0) << verified.output;
  const Ended compared = run_h3_without_gpu(scratch, {"compare", whole, preempted});
  EXPECT_EQ(compared.end.exit_code, 0);
  EXPECT_NE(compared.output.find("first_drift: none"), std::string::npos) << compared.output;
}

const auto kPreemptedName = [](const auto& info) { return testing::PrintToString(info.param); };

INSTANTIATE_TEST_SUITE_P(generation, PreemptedRun,
                         testing::Values(PreemptedRow{"reduced", 42, "cpu", 3},
                                         PreemptedRow{"reduced", 43, "cpu", 3},
                                         PreemptedRow{"reduced", 44, "cpu", 3}),
                         kPreemptedName);
#ifdef H3_HAVE_CUDA
INSTANTIATE_TEST_SUITE_P(generation_cuda, PreemptedRun,
                         testing::Values(PreemptedRow{"preflight-6", 42, "cuda", 2},
                                         PreemptedRow{"reduced", 42, "cuda", 3}),
                         kPreemptedName);
#endif

// ---- killed at a byte

struct CutRow {
  const char* name;
  std::uint64_t largest_file;
  bool told;  // the write fails, as on a full disk; otherwise the byte kills
};
void PrintTo(const CutRow& row, std::ostream* out) { *out << row.name; }

class CutRun : public testing::TestWithParam<CutRow> {
 protected:
  static constexpr std::int64_t kEvaluations = 2;
  const Scratch scratch;
  const std::string contract = scratch.path("short.json"), cut = scratch.path("cut");

  void SetUp() override { write_file(contract, short_contract_text(kEvaluations)); }

  // Of the run that nothing happened to.
  const std::map<std::string, std::string>& whole() const {
    static const std::map<std::string, std::string> files = [&] {
      const std::string folder = scratch.path("whole");
      const Ended ended = run_h3(scratch, {"run", "--contract", contract, "--out", folder});
      require(ended.end.exit_code == 0, "uninterrupted run: {}", ended.output);
      return promised_files(folder);
    }();
    return files;
  }
};

// No file may grow beyond so many bytes: the task ends in the middle of the first larger one.
TEST_P(CutRun, goes_on_to_the_same_bytes) {
  gate::Command limited;
  limited.largest_file = GetParam().largest_file;
  limited.told_of_largest_file = GetParam().told;
  const Ended ended = run_h3(scratch, {"run", "--contract", contract, "--out", cut}, limited);
  if (GetParam().told) {
    EXPECT_EQ(ended.end.exit_code, 2) << ended.output;
  } else {
    EXPECT_EQ(ended.end.signal, SIGXFSZ) << ended.output;
  }
  EXPECT_FALSE(fs::exists(trajectory_of_run(cut)));
  const bool begun = fs::exists(cut + "/run.json");
  const Ended again = begun ? run_h3(scratch, {"resume", cut, "--verify-last-step"})
                            : run_h3(scratch, {"run", "--contract", contract, "--out", cut});
  ASSERT_EQ(again.end.exit_code, 0) << again.output;
  EXPECT_EQ(promised_files(cut), whole());
}

const CutRow kCuts[] = {
    {"first_byte", 1, false},
    {"in_the_contract", 100, false},
    {"in_run_json", 630, false},
    {"in_the_steps_header", 700, false},
    {"in_the_velocity", 5000, false},
    {"last_byte_of_a_step", 18255, false},
    {"in_the_trajectory", 40000, false},
    {"disk_full_in_the_contract", 100, true},
    {"disk_full_in_a_step", 9000, true},
    {"disk_full_in_the_trajectory", 40000, true},
};
INSTANTIATE_TEST_SUITE_P(generation, CutRun, testing::ValuesIn(kCuts),
                         [](const auto& info) { return info.param.name; });

// ---- what is refused, and what is not

// A run of four evaluations in this process, two of them done.
class ShortRun {
 public:
  static constexpr std::int64_t kEvaluations = 4, kDone = 2;
  const Scratch scratch;
  const GenerationContract contract = parse_contract(short_contract_text(kEvaluations), "short");
  RunIdentity identity = run_identity(contract, 42, "cpu");
  std::string build = "this build";
  const std::string folder = scratch.path("run");
  std::int64_t evaluated = 0;

  ShortRun() {
    begin_run(folder, contract, identity, build);
    go_on({.evaluations = kDone});
  }
  RunOutcome go_on(const RunLimits& limits = {}) {
    return continue_run(
        folder, identity, build,
        [&](const Values& inputs) {
          ++evaluated;
          return evaluate_reduced(inputs);
        },
        limits);
  }
  std::string path(const std::string& name) const { return folder + "/" + name; }

  // Changes one text in a JSON file of the run.
  void edit(const std::string& name, const std::function<void(nlohmann::json&)>& change) const {
    auto json = nlohmann::json::parse(gate::read_file(path(name)));
    change(json);
    write_file(path(name), json.dump(2) + "\n");
  }
  // Changes one byte of a file of the run.
  void flip(const std::string& name, std::int64_t from_the_end) const {
    std::string bytes = gate::read_file(path(name));
    bytes[bytes.size() - std::size_t(from_the_end)] ^= 1;
    write_file(path(name), bytes);
  }
};

struct RefusalRow {
  const char* name;
  std::function<void(ShortRun&)> change;
  const char* says;
};
void PrintTo(const RefusalRow& row, std::ostream* out) { *out << row.name; }

class ChangedRun : public testing::TestWithParam<RefusalRow> {};

TEST_P(ChangedRun, is_refused) {
  ShortRun run;
  const std::int64_t before = run.evaluated;
  GetParam().change(run);
  EXPECT_TRUE(fails_naming([&] { run.go_on({.verify_last_step = true}); }, {GetParam().says}));
  EXPECT_LE(run.evaluated, before + 1) << "only the verified step is evaluated";
  EXPECT_FALSE(fs::exists(trajectory_of_run(run.folder)));
}

const RefusalRow kRefusals[] = {
    {"seed", [](ShortRun& run) { run.identity.seed = 43; }, "seed is 43, the run was begun with 42"},
    {"engine", [](ShortRun& run) { run.identity.engine = "cuda on NVIDIA H200"; }, "engine is cuda"},
    {"weights", [](ShortRun& run) { run.identity.weights = "synthetic, seed 7"; }, "weights is"},
    {"kernels", [](ShortRun& run) { run.identity.trees["kernels"][0] ^= 1; }, "tree of kernels is"},
    {"another_tree", [](ShortRun& run) { run.identity.trees["golden"] = "00"; }, "tree of golden is"},
    {"a_tree_less", [](ShortRun& run) { run.identity.trees.erase("model"); }, "other source trees"},
    {"tables", [](ShortRun& run) { run.identity.device_functions_sha256 = "0"; }, "device_functions.h5 is"},
    {"another_build", [](ShortRun& run) { run.build = "another"; }, "h3 generate adopt"},
    {"contract", [](ShortRun& run) { write_file(run.path("contract.json"), short_contract_text(5)); },
     "contract.json"},
    {"no_contract", [](ShortRun& run) { fs::remove(run.path("contract.json")); }, "cannot open the contract"},
    {"no_run", [](ShortRun& run) { fs::remove(run.path("run.json")); }, "holds no run"},
    {"run_cut_short", [](ShortRun& run) { fs::resize_file(run.path("run.json"), 40); }, "not valid JSON"},
    {"flipped_bit", [](ShortRun& run) { run.flip("step_000.safetensors", 9); }, "step_000.json says"},
    {"flipped_bit_in_the_header", [](ShortRun& run) { run.flip("step_001.safetensors", 18200); },
     "step_001.json says"},
    {"step_cut_short", [](ShortRun& run) { fs::resize_file(run.path("step_001.safetensors"), 18255); },
     "step_001.json says"},
    {"step_emptied", [](ShortRun& run) { fs::resize_file(run.path("step_001.safetensors"), 0); },
     "step_001.json says"},
    {"step_missing", [](ShortRun& run) { fs::remove(run.path("step_001.safetensors")); },
     "step_001.safetensors"},
    {"first_record_missing", [](ShortRun& run) { fs::remove(run.path("step_000.json")); },
     "step_000.json: missing, although"},
    {"record_cut_short", [](ShortRun& run) { fs::resize_file(run.path("step_001.json"), 100); },
     "not valid JSON"},
    {"link",
     [](ShortRun& run) {
       run.edit("step_001.json", [](auto& json) { json["link"] = std::string(64, '0'); });
     },
     "the chain of this run has"},
    {"inputs",
     [](ShortRun& run) {
       run.edit("step_001.json", [](auto& json) { json["inputs"] = std::string(64, '0'); });
     },
     "this run gives the evaluation"},
    {"digest_of_a_tensor",
     [](ShortRun& run) {
       run.edit("step_001.json", [](auto& json) { json["tensors"]["video_rows"] = std::string(64, '0'); });
     },
     "digests of tensors"},
    {"steps_exchanged",
     [](ShortRun& run) {
       for (const char* extension : {".json", ".safetensors"}) {
         const std::string a = run.path("step_000") + extension, b = run.path("step_001") + extension;
         fs::rename(a, a + ".kept"), fs::rename(b, a), fs::rename(a + ".kept", b);
       }
     },
     "is of evaluation 1"},
    {"step_of_another_seed",
     [](ShortRun& run) {
       // Sound in itself, with its own records, put under this run's identity.
       const Scratch scratch;
       const std::string other = scratch.path("other");
       RunIdentity identity = run.identity;
       identity.seed = 43;
       begin_run(other, run.contract, identity, run.build);
       continue_run(other, identity, run.build, evaluate_reduced, {.evaluations = 2});
       for (const char* file : {"/step_000.json", "/step_000.safetensors"})
         fs::copy(other + file, run.folder + file, fs::copy_options::overwrite_existing);
     },
     "this run gives the evaluation"},
};
INSTANTIATE_TEST_SUITE_P(generation, ChangedRun, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

// A velocity that was forged together with all digests that can be derived from it: nothing but evaluating
// the step again can tell.
class ForgedRun : public testing::TestWithParam<const char*> {};

TEST_P(ForgedRun, is_found_by_verify_last_step) {
  ShortRun honest;
  const Scratch scratch;
  const std::string folder = scratch.path("forged");
  begin_run(folder, honest.contract, honest.identity, honest.build);
  std::int64_t evaluation = 0;
  const auto forge = [&](const Values& inputs) {
    Values velocity = evaluate_reduced(inputs);
    if (evaluation++ == 1) velocity.at(GetParam()).data<float>()[7] += 0x1p-20f;
    return velocity;
  };
  continue_run(folder, honest.identity, honest.build, forge, {.evaluations = 2});
  EXPECT_TRUE(fails_naming(
      [&] {
        continue_run(folder, honest.identity, honest.build, evaluate_reduced, {.verify_last_step = true});
      },
      {"step 1: evaluated again", GetParam()}));
}

INSTANTIATE_TEST_SUITE_P(generation, ForgedRun, testing::Values("video_output", "audio_output"),
                         [](const auto& info) { return std::string(info.param); });

struct LeftoverRow {
  const char* name;
  std::function<void(ShortRun&)> leave;
  std::int64_t replayed;
};
void PrintTo(const LeftoverRow& row, std::ostream* out) { *out << row.name; }

// What a killed task may leave behind is no step yet.
class Leftover : public testing::TestWithParam<LeftoverRow> {};

TEST_P(Leftover, is_written_again) {
  ShortRun run;
  GetParam().leave(run);
  const RunOutcome outcome = run.go_on();
  EXPECT_EQ(outcome.replayed, GetParam().replayed);
  EXPECT_EQ(outcome.evaluated, ShortRun::kEvaluations - GetParam().replayed);
  EXPECT_TRUE(outcome.complete);
  ShortRun untouched;
  untouched.go_on();
  EXPECT_EQ(promised_files(run.folder), promised_files(untouched.folder));
  verify_trajectory(Trajectory(trajectory_of_run(run.folder)));
}

const LeftoverRow kLeftovers[] = {
    {"nothing", [](ShortRun&) {}, 2},
    {"half_a_step", [](ShortRun& run) { write_file(run.path("step_002.safetensors.77.tmp"), "half"); }, 2},
    {"half_a_record", [](ShortRun& run) { write_file(run.path("step_002.json.77.tmp"), "{"); }, 2},
    {"half_a_trajectory", [](ShortRun& run) { write_file(run.path("trajectory.h5.tmp"), "HDF"); }, 2},
    {"step_without_record", [](ShortRun& run) { fs::remove(run.path("step_001.json")); }, 1},
    {"torn_step_without_record",
     [](ShortRun& run) {
       fs::remove(run.path("step_001.json"));
       fs::resize_file(run.path("step_001.safetensors"), 18000);
     },
     1},
};
INSTANTIATE_TEST_SUITE_P(generation, Leftover, testing::ValuesIn(kLeftovers),
                         [](const auto& info) { return info.param.name; });

// ---- one task per run, one build per run

class RunFolder : public testing::TestWithParam<const char*> {};

TEST_P(RunFolder, takes_one_run_only) {
  ShortRun run;
  EXPECT_TRUE(fails_naming([&] { begin_run(run.folder, run.contract, run.identity, run.build); },
                           {"holds a run already"}));
  run.identity.seed = 7;
  EXPECT_TRUE(fails_naming([&] { begin_run(run.scratch.path("b"), run.contract, run.identity, run.build); },
                           {"seed 7: the contract is for 42, 43, 44"}));
}

TEST_P(RunFolder, has_room_for_one_task) {
  ShortRun run;
  const auto nested = [&](const Values&) -> Values {
    run.go_on();
    return {};
  };
  EXPECT_TRUE(fails_naming([&] { continue_run(run.folder, run.identity, run.build, nested); },
                           {"another task is working on this run"}));
}

TEST_P(RunFolder, keeps_a_sealed_run_as_it_is) {
  ShortRun run;
  run.go_on();
  const auto files = promised_files(run.folder);
  const RunOutcome again = run.go_on({.verify_last_step = true});
  EXPECT_EQ(again.replayed, ShortRun::kEvaluations);
  EXPECT_EQ(again.evaluated, 0);
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(promised_files(run.folder), files);
}

TEST_P(RunFolder, refuses_what_is_not_finite) {
  ShortRun run;
  const auto broken = [&](const Values& inputs) {
    Values velocity = evaluate_reduced(inputs);
    velocity.at("audio_output").data<float>()[3] = NAN;
    return velocity;
  };
  EXPECT_TRUE(fails_naming([&] { continue_run(run.folder, run.identity, run.build, broken); },
                           {"step 2: audio_output has 1 elements that are not finite"}));
  EXPECT_EQ(saved_steps(run.folder), 2);
}

TEST_P(RunFolder, is_adopted_by_a_build_of_the_same_trees_only) {
  ShortRun run;
  run.build = "the next build";
  EXPECT_TRUE(fails_naming([&] { run.go_on(); }, {"h3 generate adopt"}));
  RunIdentity changed = run.identity;
  changed.trees["kernels"] = std::string(40, '0');
  EXPECT_TRUE(fails_naming([&] { adopt_run(run.folder, changed, run.build); }, {"tree of kernels"}));
  EXPECT_TRUE(fails_naming([&] { run.go_on(); }, {"h3 generate adopt"}));
  adopt_run(run.folder, run.identity, run.build);
  EXPECT_EQ(record_of_run(run.folder).builds, std::vector<std::string>{"this build"});
  EXPECT_TRUE(run.go_on().complete);
  verify_trajectory(Trajectory(trajectory_of_run(run.folder)));
}

INSTANTIATE_TEST_SUITE_P(generation, RunFolder, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

// The command itself: a copy of the program with one byte more is another build of the same trees.
class AdoptCommand : public testing::TestWithParam<const char*> {};

TEST_P(AdoptCommand, takes_over_what_another_build_began) {
  const Scratch scratch;
  const std::string contract = scratch.path("short.json"), run = scratch.path("run"),
                    other = scratch.path("h3");
  write_file(contract, short_contract_text(2));
  ASSERT_EQ(
      run_h3(scratch, {"run", "--contract", contract, "--out", run, "--evaluations", "1"}).end.exit_code, 0);
  fs::copy_file(h3_program(), other);
  std::ofstream(other, std::ios::app) << '\0';
  const auto with_other = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {other, "generate"});
    const auto end =
        gate::run_to_end({.arguments = arguments, .output_file = scratch.path("output"), .time_limit = 300});
    return Ended{end, gate::read_file(scratch.path("output"))};
  };
  const Ended refused = with_other({"resume", run});
  EXPECT_EQ(refused.end.exit_code, 2);
  EXPECT_NE(refused.output.find("h3 generate adopt takes it over"), std::string::npos) << refused.output;
  const Ended adopted = with_other({"adopt", run});
  EXPECT_EQ(adopted.end.exit_code, 0) << adopted.output;
  const Ended done = with_other({"resume", run});
  EXPECT_EQ(done.end.exit_code, 0) << done.output;
  EXPECT_NE(run_h3(scratch, {"resume", run}).end.exit_code, 0) << "the first build has handed it over";
}

INSTANTIATE_TEST_SUITE_P(generation, AdoptCommand, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
