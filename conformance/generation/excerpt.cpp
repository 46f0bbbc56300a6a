// A few rows of a trajectory, drawn by its seal: what they show without the record they come from.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/errors.h"
#include "conformance/generation/sealed.h"
#include "fixtures/path.h"
#include "harness/generation/trajectory_excerpt.h"

namespace h3 {
namespace {

constexpr std::int64_t kRows =
    9;  // of 18 video and 4 audio rows: conditions, generated ones, all of the sound

const std::string& excerpt() {
  static const Scratch scratch;
  static const std::string path = [] {
    write_excerpt(scratch.path("excerpt.h5"), Trajectory(sealed()), kRows);
    return scratch.path("excerpt.h5");
  }();
  return path;
}

void copy_excerpt(const std::string& to, const Change& change) {
  std::vector<std::string> of_step = {"inputs", "link"};
  for (const char* name : kStepTensors) of_step.push_back(fmt::format("{}_sha256", name));
  copy_changed(excerpt(), to, change, {"schema", "contract", "identity", "seal"}, of_step, {"drawn"});
}

class TrajectoryExcerpt : public testing::TestWithParam<const char*> {};

TEST_P(TrajectoryExcerpt, verifies_by_itself) {
  const VerifiedExcerpt verified = verify_excerpt(excerpt());
  EXPECT_EQ(verified.evaluations, 4);
  EXPECT_EQ(verified.drawn, kRows);
  EXPECT_EQ(verified.identity, Trajectory(sealed()).identity());
  const Scratch scratch;
  copy_excerpt(scratch.path("copy.h5"), {});
  EXPECT_NO_THROW(verify_excerpt(scratch.path("copy.h5"))) << "the copy of the cases below";
}

TEST_P(TrajectoryExcerpt, holds_rows_of_the_trajectory) {
  const Hdf5Reader file(excerpt());
  const Tensor few = file.read("rows/video_velocity"),
               all = Trajectory(sealed()).step(3).at("video_velocity");
  const Tensor last = few.row_range(3, 1).reshaped({few.shape()[1], few.shape()[2]});
  ASSERT_EQ(last.shape(), (Shape{kRows, all.cols()}));
  std::int64_t row = -1;
  for (std::int64_t i = 0; i < kRows; ++i) do
      ASSERT_LT(++row, all.rows()) << "drawn row " << i << " is not in the trajectory, in this order";
    while (!std::ranges::equal(all.row_range(row, 1).byte_span(), last.row_range(i, 1).byte_span()));
}

TEST_P(TrajectoryExcerpt, goes_through_the_command_line) {
  const Scratch scratch;
  const std::string path = scratch.path("few.h5");
  EXPECT_EQ(run_h3(scratch, {"excerpt", sealed(), "--out", path, "--rows", "3"}).end.exit_code, 0);
  const Ended verified = run_h3(scratch, {"verify", path});
  EXPECT_EQ(verified.end.exit_code, 0);
  EXPECT_NE(verified.output.find("Euler steps of the 3 rows"), std::string::npos) << verified.output;
  EXPECT_EQ(run_h3(scratch, {"excerpt", sealed(), "--out", path, "--rows", "0"}).end.exit_code, 2);
}

INSTANTIATE_TEST_SUITE_P(generation, TrajectoryExcerpt, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

// Of a generation at the released size, on a machine that is not everybody's.
class RecordedGeneration : public testing::TestWithParam<const char*> {};

TEST_P(RecordedGeneration, verifies_without_its_machine) {
  const VerifiedExcerpt verified =
      verify_excerpt((data_root() / "ctest/recorded/generation" / GetParam()).string() + ".h5");
  EXPECT_EQ(verified.identity.config, "released");
  EXPECT_EQ(verified.identity.engine, "cuda on NVIDIA H200");
  EXPECT_EQ(verified.evaluations, 49);
}

INSTANTIATE_TEST_SUITE_P(generation, RecordedGeneration, testing::Values("seed_42"),
                         [](const auto& info) { return std::string(info.param); });

struct ForgedExcerptRow {
  const char* name;
  Change change;
  const char* says;
};
void PrintTo(const ForgedExcerptRow& row, std::ostream* out) { *out << row.name; }

class ForgedExcerpt : public testing::TestWithParam<ForgedExcerptRow> {};

TEST_P(ForgedExcerpt, does_not_verify) {
  const Scratch scratch;
  const std::string path = scratch.path("forged.h5");
  copy_excerpt(path, GetParam().change);
  const std::string error = error_of([&] { verify_excerpt(path); });
  EXPECT_NE(error.find(GetParam().says), std::string::npos) << error;
}

const ForgedExcerptRow kForged[] = {
    {"last_video_rows", nudged({"rows/video_rows"}, 1 << 30), "step_003/video_rows"},
    {"first_audio_velocity", negated({"rows/audio_velocity"}), "step_000/audio_rows"},
    {"digest_of_a_velocity", retold("step_001", "video_velocity_sha256"), "step_001: its link"},
    {"digest_of_rows", retold("step_002", "audio_rows_sha256"), "step_002: its link"},
    {"later_inputs", retold("step_002", "inputs"), "step_002: its link"},
    {"first_inputs", retold("step_000", "inputs"), "step_000: not what the contract gives"},
    {"link", retold("step_003", "link"), "step_003: its link"},
    {"other_rows_of_another_seal", retold("/", "seal"), "step_000/"},
    {"seed",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "identity") text = with(text, "\"seed\":42", "\"seed\":43");
          }},
     "step_000: not what the contract gives"},
    {"engine",
     {.text =
          [](const auto&, const auto& name, std::string& text) {
            if (name == "identity") text = with(text, "\"cpu\"", "\"cuda on NVIDIA H200\"");
          }},
     "step_000: its link"},
};
INSTANTIATE_TEST_SUITE_P(generation, ForgedExcerpt, testing::ValuesIn(kForged),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
