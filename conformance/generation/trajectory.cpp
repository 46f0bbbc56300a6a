// The sealed record of a run: what it promises is derived again, and where two of them part is named.
#include "harness/generation/trajectory.h"

#include <gtest/gtest.h>

#include "conformance/errors.h"
#include "conformance/generation/sealed.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

void copy_trajectory(const std::string& to, const Change& change) {
  copy_changed(sealed(), to, change, {"schema", "contract", "identity", "seal"}, {"inputs", "link"});
}

// ---- verify

class SealedTrajectory : public testing::TestWithParam<const char*> {};

TEST_P(SealedTrajectory, verifies) {
  EXPECT_NO_THROW(verify_trajectory(Trajectory(sealed())));
  const Scratch scratch;
  copy_trajectory(scratch.path("copy.h5"), {});
  EXPECT_NO_THROW(verify_trajectory(Trajectory(scratch.path("copy.h5")))) << "the copy of the cases below";
}

// Whatever byte of the file flips, it is refused, or it reads as the same trajectory (bytes nothing is in).
TEST_P(SealedTrajectory, never_reads_as_another_one) {
  const Scratch scratch;
  const std::string bytes = gate::read_file(sealed()), path = scratch.path("flipped.h5");
  const Trajectory original(sealed());
  int refused = 0;
  constexpr std::size_t kPlaces = 61;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    std::string flipped = bytes;
    flipped[i * (bytes.size() - 1) / (kPlaces - 1)] ^= 0x10;
    write_file(path, flipped);
    const std::string error = error_of([&] {
      const Trajectory trajectory(path);
      verify_trajectory(trajectory);
      EXPECT_TRUE(drift_report(original, trajectory).same()) << i;
    });
    refused += !error.empty();
  }
  EXPECT_GT(refused, int(kPlaces) / 2);
}

TEST_P(SealedTrajectory, is_refused_when_cut_short) {
  const Scratch scratch;
  const std::string bytes = gate::read_file(sealed()), path = scratch.path("cut.h5");
  for (const std::size_t size : {std::size_t(0), std::size_t(100), bytes.size() / 2, bytes.size() - 1}) {
    write_file(path, bytes.substr(0, size));
    EXPECT_TRUE(fails_naming([&] { verify_trajectory(Trajectory(path)); }, {path})) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(generation, SealedTrajectory, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

struct ForgedRow {
  const char* name;
  Change change;
  const char* says;
};
void PrintTo(const ForgedRow& row, std::ostream* out) { *out << row.name; }

class ForgedTrajectory : public testing::TestWithParam<ForgedRow> {};

TEST_P(ForgedTrajectory, does_not_verify) {
  const Scratch scratch;
  const std::string path = scratch.path("forged.h5");
  copy_trajectory(path, GetParam().change);
  EXPECT_TRUE(fails_naming([&] { verify_trajectory(Trajectory(path)); }, {path, GetParam().says}));
}

const ForgedRow kForged[] = {
    {"sigma", nudged({"video_sigmas"}, 2), "schedule/video_sigmas: 1 of 5"},
    {"timestep", nudged({"audio_timesteps"}, 2), "schedule/audio_timesteps: 1 of 4"},
    {"noise", nudged({"initial/video_rows"}, 700), "initial/video_rows: 1 of 1728"},
    {"condition", nudged({"initial/video_rows"}, 5), "initial/video_rows: 1 of 1728"},
    {"audio_noise", nudged({"initial/audio_rows"}), "initial/audio_rows: 1 of 512"},
    {"rows", nudged({"step_002/video_rows"}, 700), "step_002/video_rows: 1 of 1728"},
    {"audio_velocity", nudged({"step_001/audio_velocity"}), "step_001"},
    {"velocity_of_a_condition", nudged({"step_001/video_velocity"}), "step_001: its digests or its link"},
    {"inputs", retold("step_003", "inputs"), "step_003: its digests or its link"},
    {"link", retold("step_000", "link"), "step_000: its digests or its link"},
    {"seal", retold("/", "seal"), "broken seal"},
    {"schema", retold("/", "schema"), "not a trajectory"},
    {"contract",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "contract") text = with(text, "\"psnr_db\": 30", "\"psnr_db\": 20");
          }},
     "its identity names contract"},
    {"seed",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "identity") text = with(text, "\"seed\":42", "\"seed\":43");
          }},
     "initial/video_rows"},
    {"seed_of_no_contract",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "identity") text = with(text, "\"seed\":42", "\"seed\":41");
          }},
     "seed 41"},
    {"engine",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "identity") text = with(text, "\"cpu\"", "\"cuda on NVIDIA H200\"");
          }},
     "step_000: its digests or its link"},
};
INSTANTIATE_TEST_SUITE_P(generation, ForgedTrajectory, testing::ValuesIn(kForged),
                         [](const auto& info) { return info.param.name; });

// ---- drift

struct DriftRow {
  const char* name;
  Change change;
  std::int64_t evaluation;
  const char* kind;
  const char* modality;
  const char* where;
};
void PrintTo(const DriftRow& row, std::ostream* out) { *out << row.name; }

class PlantedDrift : public testing::TestWithParam<DriftRow> {};

TEST_P(PlantedDrift, is_named_with_its_step_kind_and_modality) {
  const Scratch scratch;
  copy_trajectory(scratch.path("drifted.h5"), GetParam().change);
  const DriftReport report = drift_report(Trajectory(sealed()), Trajectory(scratch.path("drifted.h5")));
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->evaluation, GetParam().evaluation);
  EXPECT_EQ(report.first->kind, GetParam().kind);
  EXPECT_EQ(report.first->modality, GetParam().modality);
  EXPECT_NE(report.first->where.find(GetParam().where), std::string::npos) << report.first->where;
}

const DriftRow kDrifts[] = {
    {"video_sigmas", nudged({"video_sigmas"}, 2), -1, "sigmas", "video", "1 of 5 elements"},
    {"audio_sigmas", nudged({"audio_sigmas"}, 2), -1, "sigmas", "audio", "1 of 5 elements"},
    {"audio_timesteps", nudged({"audio_timesteps"}, 2), -1, "timesteps", "audio", "1 of 4 elements"},
    {"video_noise", nudged({"initial/video_rows"}, 700), -1, "initial rows", "video", "row 7, element 28"},
    {"audio_noise", nudged({"initial/audio_rows"}), -1, "initial rows", "audio", "row 0, element 5"},
    {"video_velocity", nudged({"step_002/video_velocity"}, 97), 2, "velocity", "video", "row 1, element 1"},
    {"audio_velocity", nudged({"step_000/audio_velocity"}), 0, "velocity", "audio", "1 of 512"},
    {"last_audio_rows", nudged({"step_003/audio_rows"}), 3, "rows", "audio", "1 of 512"},
    {"video_before_audio", nudged({"step_001/audio_velocity", "step_001/video_velocity"}), 1, "velocity",
     "video", "1 of 1728"},
    {"velocity_before_rows", nudged({"step_001/video_rows", "step_001/audio_velocity"}), 1, "velocity",
     "audio", "1 of 512"},
    {"earlier_step_first", nudged({"step_001/video_velocity", "step_000/audio_rows"}), 0, "rows", "audio",
     "1 of 512"},
};
INSTANTIATE_TEST_SUITE_P(generation, PlantedDrift, testing::ValuesIn(kDrifts),
                         [](const auto& info) { return info.param.name; });

// Runs that were never meant to be the same are not compared; a run and itself are.
class ComparedTrajectories : public testing::TestWithParam<const char*> {};

TEST_P(ComparedTrajectories, are_of_one_contract_and_seed) {
  const Scratch scratch;
  const auto short_run = [&](const char* name, std::int64_t evaluations, std::uint64_t seed) {
    const GenerationContract contract = parse_contract(short_contract_text(evaluations), "short");
    const RunIdentity identity = run_identity(contract, seed, "cpu");
    begin_run(scratch.path(name), contract, identity, "build");
    continue_run(scratch.path(name), identity, "build", evaluate_reduced);
    return trajectory_of_run(scratch.path(name));
  };
  const Trajectory one(sealed());
  EXPECT_TRUE(drift_report(one, Trajectory(short_run("same", 4, 42))).same());
  const std::string seed = short_run("seed", 4, 43), contract = short_run("contract", 3, 42);
  EXPECT_TRUE(fails_naming([&] { drift_report(one, Trajectory(seed)); }, {"seed 43"}));
  EXPECT_TRUE(fails_naming([&] { drift_report(one, Trajectory(contract)); }, {"contract"}));
}

// A difference in one velocity reaches every step after it.
TEST_P(ComparedTrajectories, show_how_far_a_difference_grows) {
  const Scratch scratch;
  const GenerationContract contract = parse_contract(short_contract_text(4), "short");
  const RunIdentity identity = run_identity(contract, 42, "cpu");
  std::int64_t evaluation = 0;
  const auto perturbed = [&](const Values& inputs) {
    Values velocity = evaluate_reduced(inputs);
    if (evaluation++ == 1) velocity.at("video_output").data<float>()[800] += 0.5f;
    return velocity;
  };
  begin_run(scratch.path("run"), contract, identity, "build");
  continue_run(scratch.path("run"), identity, "build", perturbed);
  const DriftReport report =
      drift_report(Trajectory(sealed()), Trajectory(trajectory_of_run(scratch.path("run"))));
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->to_string().substr(0, 24), "step 1, video velocity: ");
  EXPECT_EQ(report.steps[0].video_rows, 0);
  EXPECT_GT(report.steps[1].video_rows, 0);
  EXPECT_EQ(report.steps[1].audio_rows, 0) << "the audio has not seen it yet";
  EXPECT_GT(report.steps[2].audio_velocity, 0);
  EXPECT_GT(report.steps[3].audio_rows, 0);
}

INSTANTIATE_TEST_SUITE_P(generation, ComparedTrajectories, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
