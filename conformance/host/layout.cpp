// Packed layouts: every row, position, tag, index list and time bitwise as the provider's; rows keep their
// identity under any permutation; what is not a layout is refused.
#include "model/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "conformance/errors.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "model/scheduler.h"

namespace h3 {
namespace {

using Rows = std::vector<std::int64_t>;

const Hdf5Reader& recorded() {
  static const Hdf5Reader file(fixture_path("layouts.h5"));
  return file;
}

StepTimes recorded_times(const std::string& plan) {
  return {float(recorded().double_attribute(plan, "video_time")),
          float(recorded().double_attribute(plan, "audio_time"))};
}

// The layout of a recorded request, built here.
PackedLayout build_recorded(const std::string& group, StepTimes times) {
  const Rows tags = recorded().read_vector<std::int64_t>(group + "/text_tags");
  const Rows size = recorded().read_vector<std::int64_t>(group + "/target");
  const Target target{{size[0], size[1], size[2]}, size[3]};
  if (!recorded().contains(group + "/references")) {
    std::vector<Anchor> anchors;
    for (const auto anchor : recorded().read_vector<std::int64_t>(group + "/anchors"))
      anchors.push_back(anchor == 0 ? Anchor::first : Anchor::last);
    return build_fl2va(tags, target, anchors, times);
  }
  using Kind = Reference::Kind;
  const Rows table = recorded().read_vector<std::int64_t>(group + "/references");
  std::vector<Reference> references;
  for (std::size_t r = 0; r < table.size(); r += 5) {
    const Kind kind = table[r] == 0 ? Kind::image : table[r] == 1 ? Kind::audio : Kind::video;
    references.push_back({kind, {table[r + 1], table[r + 2], table[r + 3]}, table[r + 4]});
  }
  return build_ref2va(tags, references, target, times);
}

const char* name_of(Task task) {
  switch (task) {
    case Task::t2va:
      return "t2va";
    case Task::fl2va:
      return "fl2va";
    case Task::ref2va:
      return "ref2va";
  }
  return "?";
}

// ---- against the provider
// --------------------------------------------------------------------------------------

constexpr const char* kRecorded[] = {"tiny",
                                     "small",
                                     "medium",
                                     "768p-124f",
                                     "t2va_example",
                                     "t2va_one_patch",
                                     "t2va_silent",
                                     "t2va_without_text",
                                     "t2va_wide",
                                     "t2va_tall",
                                     "t2va_345f",
                                     "fl2va_example",
                                     "fl2va_last",
                                     "fl2va_last_before_first",
                                     "fl2va_last_1_frames",
                                     "fl2va_last_7_frames",
                                     "fl2va_last_8_frames",
                                     "fl2va_last_9_frames",
                                     "fl2va_last_15_frames",
                                     "fl2va_last_16_frames",
                                     "fl2va_last_17_frames",
                                     "fl2va_last_22_frames",
                                     "fl2va_last_37_frames",
                                     "fl2va_last_42_frames",
                                     "fl2va_last_67_frames",
                                     "fl2va_last_72_frames",
                                     "fl2va_last_97_frames",
                                     "fl2va_last_102_frames",
                                     "fl2va_last_128_frames",
                                     "fl2va_last_129_frames",
                                     "fl2va_last_143_frames",
                                     "fl2va_last_144_frames",
                                     "fl2va_last_257_frames",
                                     "fl2va_last_300_frames",
                                     "ref2va_example",
                                     "ref2va_none",
                                     "ref2va_image",
                                     "ref2va_audio",
                                     "ref2va_silent_clip",
                                     "ref2va_soundtrack_longer",
                                     "ref2va_long_clips",
                                     "ref2va_everything"};

std::string as_test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct Layout : testing::TestWithParam<const char*> {
  std::string group() const { return std::string("layouts/") + GetParam(); }
};

TEST_P(Layout, matches_provider_fixture) {
  const PackedLayout layout = build_recorded(group(), recorded_times(group() + "/plan_1"));
  EXPECT_EQ(name_of(layout.task), recorded().string_attribute(group(), "task"));
  ASSERT_EQ(layout.rows(), recorded().int_attribute(group(), "rows"));
  EXPECT_EQ(layout.condition_video_rows, recorded().int_attribute(group(), "condition_video_rows"));
  EXPECT_EQ(layout.condition_audio_rows, recorded().int_attribute(group(), "condition_audio_rows"));

  const Rows stored = recorded().read_vector<std::int64_t>(group() + "/stored_rows");
  const Rows tags = recorded().read_vector<std::int64_t>(group() + "/token_tags");
  const auto positions = recorded().read_vector<double>(group() + "/positions");
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto row = std::size_t(stored[i]);
    ASSERT_EQ(layout.token_tags[row], tags[i]) << "row " << row;
    for (std::size_t axis = 0; axis < 3; ++axis)
      ASSERT_EQ(std::bit_cast<std::uint64_t>(layout.positions[3 * row + axis]),
                std::bit_cast<std::uint64_t>(positions[3 * i + axis]))
          << "row " << row << " axis "
          << "thw"[axis] << ": " << fmt::format("{}", layout.positions[3 * row + axis]) << ", expected "
          << fmt::format("{}", positions[3 * i + axis]);
  }
  if (std::int64_t(stored.size()) == layout.rows()) {
    EXPECT_EQ(layout.text_indices, recorded().read_vector<std::int64_t>(group() + "/text_indices"));
    EXPECT_EQ(layout.video_indices, recorded().read_vector<std::int64_t>(group() + "/video_indices"));
    EXPECT_EQ(layout.audio_indices, recorded().read_vector<std::int64_t>(group() + "/audio_indices"));
  }
}

// Evaluations 0, 20 and 48 of the 50-point schedules, and times past 0.999; the digest covers every row.
TEST_P(Layout, times_of_every_plan_match_provider_fixture) {
  PackedLayout layout = build_recorded(group(), {0, 0});
  for (const char* step : {"/plan_0", "/plan_1", "/plan_2", "/plan_3"}) {
    const std::string plan = group() + step;
    layout.set_times(recorded_times(plan));
    EXPECT_EQ(layout.timesteps, recorded().read_vector<float>(plan + "/timesteps")) << plan;
    if (recorded().contains(plan + "/timestep_indices")) {
      EXPECT_EQ(layout.timestep_indices, recorded().read_vector<std::int64_t>(plan + "/timestep_indices"))
          << plan;
    }
    EXPECT_EQ(layout.sha256(), recorded().string_attribute(plan, "sha256")) << plan;
  }
}

// A permutation moves rows with their identity: the canonical order finds the same rows in the same order,
// and going there restores the layout byte for byte.
TEST_P(Layout, keeps_its_rows_under_permutation) {
  const PackedLayout layout = build_recorded(group(), recorded_times(group() + "/plan_1"));
  const auto rows = std::size_t(layout.rows());
  Rows identity(rows);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_EQ(layout.canonical_order(), identity);

  std::uint64_t state = 7;
  Rows permutation = identity;
  for (std::size_t i = rows; i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(permutation[i - 1], permutation[(state >> 33) % i]);
  }
  const PackedLayout moved = layout.permuted(permutation);
  moved.validate();
  EXPECT_TRUE(moved.sha256() != layout.sha256() || permutation == identity);
  const Rows adaln = layout.adaln_indices(), moved_adaln = moved.adaln_indices(),
             canonical = moved.canonical_order();
  for (std::size_t i = 0; i < rows; ++i) {
    ASSERT_EQ(moved.row_ids[i], permutation[i]);
    ASSERT_EQ(moved_adaln[i], adaln[std::size_t(permutation[i])]);
    ASSERT_EQ(permutation[std::size_t(canonical[i])], std::int64_t(i));
  }
  for (std::size_t i = 0; i < layout.video_indices.size(); ++i)
    ASSERT_EQ(permutation[std::size_t(moved.video_indices[i])], layout.video_indices[i]);

  const PackedLayout restored = moved.permuted(canonical);
  EXPECT_EQ(restored.sha256(), layout.sha256());
  EXPECT_EQ(restored.row_ids, identity);
}

INSTANTIATE_TEST_SUITE_P(host, Layout, testing::ValuesIn(kRecorded),
                         [](const auto& info) { return as_test_name(info.param); });

// ---- the named layouts
// -----------------------------------------------------------------------------------------

struct Pin {
  const char* name;
  std::int64_t rows, text, condition_video, audio, video;  // video: target rows
  const char* sha256;
};
void PrintTo(const Pin& pin, std::ostream* out) { *out << pin.name; }

struct NamedLayout : testing::TestWithParam<Pin> {};

TEST_P(NamedLayout, is_pinned) {
  const Pin& pin = GetParam();
  const PackedLayout layout = named_layout(pin.name);
  EXPECT_EQ(layout.rows(), pin.rows);
  EXPECT_EQ(layout.text_rows(), pin.text);
  EXPECT_EQ(layout.condition_video_rows, pin.condition_video);
  EXPECT_EQ(std::int64_t(layout.audio_indices.size()), pin.audio);
  EXPECT_EQ(std::int64_t(layout.video_indices.size()), pin.condition_video + pin.video);
  EXPECT_EQ(pin.text + pin.condition_video + pin.audio + pin.video, pin.rows);
  EXPECT_EQ(layout.sha256(), pin.sha256);
}

TEST_P(NamedLayout, is_what_the_provider_recorded) {
  const PackedLayout layout = named_layout(GetParam().name);
  const std::string plan = std::string("layouts/") + GetParam().name + "/plan_1";
  EXPECT_EQ(layout.sha256(), recorded().string_attribute(plan, "sha256"));
}

// Three times and all kinds of rows: text 1, vision rows in the text and target video 0, audio 5,
// conditions 6.
TEST_P(NamedLayout, exercises_every_kind_of_row) {
  const PackedLayout layout = named_layout(GetParam().name);
  const float video = make_schedule(50, 12).timesteps[20], audio = make_schedule(50, 3).timesteps[20];
  EXPECT_EQ(layout.timesteps, (std::vector<float>{video, audio, 0.999f}));
  const Rows adaln = layout.adaln_indices();
  EXPECT_EQ(std::set<std::int64_t>(adaln.begin(), adaln.end()), (std::set<std::int64_t>{0, 1, 5, 6}));
  std::set<std::int64_t> text_tags;
  for (const auto row : layout.text_indices) text_tags.insert(layout.token_tags[std::size_t(row)]);
  EXPECT_EQ(text_tags, (std::set<std::int64_t>{0, 1}));
}

const Pin kPins[] = {
    {"tiny", 264, 32, 72, 16, 144, "9cdd5936d82c06687d2030ebdf9714b76e948b12f1baee460b8ef46f36213d62"},
    {"small", 925, 32, 182, 74, 637, "f6ebd96429170dab38d4ac952a32005b2d0a29fc6cf8fea56f994dc7c4314c19"},
    {"medium", 3160, 1070, 448, 74, 1568, "49750cf64ba1b93879e0cd76bc71421b817a64f7821bf4df8c82763e0b8d990f"},
    {"768p-124f", 38974, 256, 1008, 414, 37296,
     "0f430439c701ce70958d8bb10841bfc05fca42a8c8c2f32a44303ec32a71b02a"}};
INSTANTIATE_TEST_SUITE_P(host, NamedLayout, testing::ValuesIn(kPins),
                         [](const auto& info) { return as_test_name(info.param.name); });

// ---- by hand
// ---------------------------------------------------------------------------------------------------

struct HandRow {
  double t, h, w;
  std::int64_t tag, timestep_index;
};

void expect_rows(const PackedLayout& layout, const std::vector<HandRow>& expected) {
  ASSERT_EQ(layout.rows(), std::int64_t(expected.size()));
  for (std::size_t s = 0; s < expected.size(); ++s) {
    const double* position = &layout.positions[3 * s];
    EXPECT_NEAR(position[0], expected[s].t, 1e-6) << "row " << s;
    EXPECT_NEAR(position[1], expected[s].h, 1e-6) << "row " << s;
    EXPECT_NEAR(position[2], expected[s].w, 1e-6) << "row " << s;
    EXPECT_EQ(layout.token_tags[s], expected[s].tag) << "row " << s;
    EXPECT_EQ(layout.timestep_indices[s], expected[s].timestep_index) << "row " << s;
  }
}

constexpr double kH = 4.686292, kW0 = -6.627417, kW1 = 16;  // the grid of a latent 2 x 4: root area sqrt(8)
constexpr StepTimes kLater = {0.25f, 0.5f};

void text_to_video() {
  const PackedLayout layout = build_fl2va(Rows{1, 1, 1}, {{3, 2, 4}, 2}, {}, kLater);
  EXPECT_EQ(layout.task, Task::t2va);
  expect_rows(layout, {{0, 0, 0, 1, 0},
                       {1, 0, 0, 1, 0},
                       {2, 0, 0, 1, 0},
                       {3, 0, kW0, 2, 1},
                       {4, 0, kW0, 2, 1},
                       {3, 0, kW1, 2, 1},
                       {4, 0, kW1, 2, 1},
                       {3, kH, kW0, 0, 0},
                       {3, kH, kW1, 0, 0},
                       {4.666667, kH, kW0, 0, 0},
                       {4.666667, kH, kW1, 0, 0},
                       {11.333333, kH, kW0, 0, 0},
                       {11.333333, kH, kW1, 0, 0}});
  EXPECT_EQ(layout.text_indices, (Rows{0, 1, 2}));
  EXPECT_EQ(layout.audio_indices, (Rows{3, 4, 5, 6}));
  EXPECT_EQ(layout.video_indices, (Rows{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(layout.timesteps, (std::vector<float>{0.25f, 0.5f}));
}

void both_keyframes() {
  const std::vector<Anchor> anchors = {Anchor::first, Anchor::last};
  const PackedLayout layout = build_fl2va(Rows{1, 1}, {{2, 2, 4}, 1}, anchors, kLater);
  expect_rows(layout, {{0, 0, 0, 1, 0},
                       {1, 0, 0, 1, 0},
                       {2, kH, kW0, 0, 2},
                       {2, kH, kW1, 0, 2},
                       {8.666667, kH, kW0, 0, 2},
                       {8.666667, kH, kW1, 0, 2},
                       {2, 0, kW0, 2, 1},
                       {2, 0, kW1, 2, 1},
                       {2, kH, kW0, 0, 0},
                       {2, kH, kW1, 0, 0},
                       {3.666667, kH, kW0, 0, 0},
                       {3.666667, kH, kW1, 0, 0}});
  EXPECT_EQ(layout.video_indices, (Rows{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(layout.audio_indices, (Rows{6, 7}));
  EXPECT_EQ(layout.condition_video_rows, 4);
  EXPECT_EQ(layout.timesteps, (std::vector<float>{0.25f, 0.5f, 0.999f}));
  EXPECT_EQ(layout.adaln_indices(), (Rows{1, 1, 6, 6, 6, 6, 5, 5, 0, 0, 0, 0}));
}

void references_of_every_kind() {
  using Kind = Reference::Kind;
  const std::vector<Reference> references = {
      {Kind::image, {1, 4, 2}, 0}, {Kind::video, {2, 2, 2}, 2}, {Kind::audio, {}, 3}};
  const PackedLayout layout = build_ref2va(Rows{1, 1}, references, {{2, 2, 4}, 1}, kLater);
  const double c = 11.333333, d = 14.333333;
  expect_rows(layout, {{0, 0, 0, 1, 0},    {1, 0, 0, 1, 0},       {2, kW0, kH, 0, 2},
                       {2, kW1, kH, 0, 2},  // the image is upright: its axes change places
                       {3, 0, 0, 2, 3},    {4, 0, 0, 2, 3},       {3, 0, 0, 2, 3},
                       {4, 0, 0, 2, 3},    {3, 0, 0, 0, 2},       {4.666667, 0, 0, 0, 2},
                       {c, 0, kW0, 2, 3},  {c + 1, 0, kW0, 2, 3}, {c + 2, 0, kW0, 2, 3},
                       {c, 0, kW1, 2, 3},  {c + 1, 0, kW1, 2, 3}, {c + 2, 0, kW1, 2, 3},
                       {d, 0, kW0, 2, 1},  {d, 0, kW1, 2, 1},     {d, kH, kW0, 0, 0},
                       {d, kH, kW1, 0, 0}, {16, kH, kW0, 0, 0},   {16, kH, kW1, 0, 0}});
  EXPECT_EQ(layout.video_indices, (Rows{2, 3, 8, 9, 18, 19, 20, 21}));
  EXPECT_EQ(layout.audio_indices, (Rows{4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(layout.condition_video_rows, 4);
  EXPECT_EQ(layout.condition_audio_rows, 10);
  EXPECT_EQ(layout.timesteps, (std::vector<float>{0.25f, 0.5f, 0.999f, 1.0f}));
}

// A frame lasts 5/3 per pixel frame: 1, 4, 4, 4, 4 of them per latent frame, starting anew every five.
void frames_are_spaced_unevenly() {
  const PackedLayout layout = build_fl2va(Rows{}, {{7, 2, 2}, 0}, {}, kLater);
  const double times[] = {0, 5 / 3., 25 / 3., 15, 65 / 3., 85 / 3., 30};
  for (std::size_t f = 0; f < 7; ++f) EXPECT_NEAR(layout.positions[3 * f], times[f], 1e-9) << f;
}

void the_grid_of_the_released_canvas() {
  const PackedLayout layout = build_fl2va(Rows{}, {{1, 48, 84}, 0}, {}, kLater);
  const double* first = &layout.positions[0];
  const double* last = &layout.positions[3 * 1007];
  EXPECT_NEAR(first[1], 3.9051368637, 1e-9);
  EXPECT_NEAR(last[1], 27.0869578749, 1e-9);
  EXPECT_NEAR(first[2], -5.1660104885, 1e-9);
  EXPECT_NEAR(last[2], 36.1581052272, 1e-9);
}

void equal_times_merge() {
  const std::vector<Anchor> anchors = {Anchor::first};
  PackedLayout layout = build_fl2va(Rows{1}, {{1, 2, 2}, 1}, anchors, {0, 0});
  EXPECT_EQ(layout.timesteps, (std::vector<float>{0, 0.999f}));
  EXPECT_EQ(layout.timestep_indices, (Rows{0, 1, 0, 0, 0}));
  layout.set_times({0.9995f, 0.25f});  // conditions follow the video past 0.999, and audio sorts first
  EXPECT_EQ(layout.timesteps, (std::vector<float>{0.25f, 0.9995f}));
  EXPECT_EQ(layout.timestep_indices, (Rows{1, 1, 0, 0, 1}));
}

void tensors_hold_the_same_rows() {
  const PackedLayout layout = named_layout("tiny");
  EXPECT_EQ(layout.positions_tensor().shape(), (Shape{264, 3}));
  EXPECT_TRUE(std::ranges::equal(layout.positions_tensor().values<double>(), layout.positions));
  EXPECT_TRUE(std::ranges::equal(layout.token_tags_tensor().values<std::int64_t>(), layout.token_tags));
  EXPECT_TRUE(
      std::ranges::equal(layout.timestep_indices_tensor().values<std::int64_t>(), layout.timestep_indices));
  EXPECT_TRUE(
      std::ranges::equal(layout.adaln_indices_tensor().values<std::int64_t>(), layout.adaln_indices()));
  EXPECT_TRUE(std::ranges::equal(layout.timesteps_tensor().values<float>(), layout.timesteps));
}

// The digest is only worth something if it sees the smallest change of every part.
void the_digest_sees_every_field() {
  const PackedLayout layout = named_layout("tiny");
  const auto changed = [&](auto change) {
    PackedLayout other = layout;
    change(other);
    return other.sha256() != layout.sha256();
  };
  EXPECT_FALSE(changed([](PackedLayout&) {}));
  EXPECT_TRUE(changed([](PackedLayout& l) { l.token_tags[5] ^= 1; }));
  EXPECT_TRUE(changed([](PackedLayout& l) { l.positions[700] = std::nextafter(l.positions[700], 1e9); }));
  EXPECT_TRUE(changed([](PackedLayout& l) { l.positions[1] = -0.0; }));
  EXPECT_TRUE(changed([](PackedLayout& l) { std::swap(l.text_indices[0], l.text_indices[1]); }));
  EXPECT_TRUE(changed([](PackedLayout& l) { std::swap(l.video_indices[0], l.video_indices[1]); }));
  EXPECT_TRUE(changed([](PackedLayout& l) { std::swap(l.audio_indices[0], l.audio_indices[1]); }));
  EXPECT_TRUE(changed([](PackedLayout& l) { --l.condition_video_rows; }));
  EXPECT_TRUE(changed([](PackedLayout& l) { ++l.condition_audio_rows; }));
  EXPECT_TRUE(changed([](PackedLayout& l) { l.timesteps[1] = std::nextafter(l.timesteps[1], 0.0f); }));
  EXPECT_TRUE(changed([](PackedLayout& l) { l.timestep_indices[9] ^= 1; }));
  EXPECT_TRUE(changed([](PackedLayout& l) {  // the same values, cut at another place
    l.audio_indices.insert(l.audio_indices.begin(), l.video_indices.back());
    l.video_indices.pop_back();
  }));
}

// The provider sums a "last" keyframe's time pairwise and a clip's clock in order. If the two agreed
// everywhere, the recorded cases could not tell which one is used where.
void the_two_sums_differ() {
  int differ = 0;
  for (std::int64_t frames = 1; frames <= 102; ++frames) {
    const std::vector<Anchor> anchors = {Anchor::last};
    const PackedLayout layout = build_fl2va(Rows{}, {{frames, 2, 2}, 0}, anchors, kLater);
    double clock = 0;
    for (std::int64_t f = 0; f < frames; ++f) clock += 5.0 / 3.0 * (f % 5 == 0 ? 1 : 4);
    const bool same = layout.positions[0] == clock - 5.0 / 3.0;
    if (frames < 8) {
      EXPECT_TRUE(same) << frames;
    }
    differ += !same;
  }
  EXPECT_GT(differ, 20);
}

void every_recorded_layout_is_checked() {
  const std::set<std::string> expected(std::begin(kRecorded), std::end(kRecorded));
  const auto names = recorded().list("layouts");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected);
  EXPECT_EQ(layout_names(), (std::vector<std::string>{"tiny", "small", "medium", "768p-124f"}));
  EXPECT_EQ(recorded().string_attribute("/", "diffusers"), "0.42.1");
}

void as_many_rows_as_asked_for() {
  for (const std::int64_t rows : {246, 264, 8192}) {
    const PackedLayout layout = layout_of_rows(rows);
    EXPECT_EQ(layout.rows(), rows);
    EXPECT_EQ(layout.rows() - layout.text_rows(), 264 - 32);
  }
  EXPECT_EQ(layout_of_rows(264).sha256(), named_layout("tiny").sha256());
}

struct Fact {
  const char* name;
  void (*check)();
};
void PrintTo(const Fact& fact, std::ostream* out) { *out << fact.name; }

struct LayoutByHand : testing::TestWithParam<Fact> {};
TEST_P(LayoutByHand, holds) { GetParam().check(); }

#define FACT(name) \
  { #name, name }
const Fact kFacts[] = {FACT(text_to_video),
                       FACT(both_keyframes),
                       FACT(references_of_every_kind),
                       FACT(frames_are_spaced_unevenly),
                       FACT(the_grid_of_the_released_canvas),
                       FACT(equal_times_merge),
                       FACT(tensors_hold_the_same_rows),
                       FACT(the_digest_sees_every_field),
                       FACT(the_two_sums_differ),
                       FACT(as_many_rows_as_asked_for),
                       FACT(every_recorded_layout_is_checked)};
INSTANTIATE_TEST_SUITE_P(host, LayoutByHand, testing::ValuesIn(kFacts),
                         [](const auto& info) { return std::string(info.param.name); });
#undef FACT

// ---- what is not a layout
// --------------------------------------------------------------------------------------

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Spoiled {
  const char* name;
  void (*spoil)(PackedLayout&);
  const char* says;
};
void PrintTo(const Spoiled& spoiled, std::ostream* out) { *out << spoiled.name; }

struct SpoiledLayout : testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledLayout, is_refused) {
  PackedLayout layout = named_layout("tiny");  // 0..31 text, 32..103 keyframe, 104..119 audio, 120..263 video
  layout.validate();
  GetParam().spoil(layout);
  EXPECT_TRUE(fails_naming([&] { layout.validate(); }, {GetParam().says}));
}

const Spoiled kSpoiled[] = {
    {"no_rows", [](PackedLayout& l) { l = {}; }, "no rows"},
    {"tag_3", [](PackedLayout& l) { l.token_tags[7] = 3; }, "row 7 has tag 3, expected 0..2"},
    {"negative_tag", [](PackedLayout& l) { l.token_tags[263] = -1; }, "row 263 has tag -1"},
    {"text_tagged_audio", [](PackedLayout& l) { l.token_tags[0] = 2; }, "text row 0 has tag 2"},
    {"video_tagged_text", [](PackedLayout& l) { l.token_tags[40] = 1; }, "video row 40 has tag 1"},
    {"audio_tagged_video", [](PackedLayout& l) { l.token_tags[104] = 0; }, "audio row 104 has tag 0"},
    {"timestep_index_past_the_end", [](PackedLayout& l) { l.timestep_indices[9] = 3; },
     "row 9 has timestep index 3, expected 0..2"},
    {"negative_timestep_index", [](PackedLayout& l) { l.timestep_indices[9] = -1; }, "timestep index -1"},
    {"no_timesteps", [](PackedLayout& l) { l.timesteps.clear(); }, "expected 0..-1"},
    {"timestep_above_one", [](PackedLayout& l) { l.timesteps[2] = 1.001f; }, "timestep 2 is 1.001"},
    {"timestep_negative", [](PackedLayout& l) { l.timesteps[0] = -0.1f; }, "timestep 0 is -0.1"},
    {"timestep_nan", [](PackedLayout& l) { l.timesteps[1] = float(kNan); }, "timestep 1 is nan"},
    {"position_nan", [](PackedLayout& l) { l.positions[3 * 50 + 1] = kNan; },
     "row 50 has position nan on axis h"},
    {"position_infinite", [](PackedLayout& l) { l.positions[2] = HUGE_VAL; },
     "row 0 has position inf on axis w"},
    {"row_listed_twice", [](PackedLayout& l) { l.video_indices[1] = l.video_indices[0]; },
     "row 32 is listed twice"},
    {"row_in_two_streams", [](PackedLayout& l) { l.audio_indices[0] = 31; },
     "row 31 is listed twice, as text and as audio"},
    {"row_missing", [](PackedLayout& l) { l.audio_indices.pop_back(); }, "row 119 is in none of"},
    {"row_outside", [](PackedLayout& l) { l.video_indices.back() = 264; }, "video row 264, expected 0..263"},
    {"row_negative", [](PackedLayout& l) { l.text_indices[0] = -1; }, "text row -1"},
    {"stream_out_of_order", [](PackedLayout& l) { std::swap(l.video_indices[3], l.video_indices[4]); },
     "expected the packed order"},
    {"too_many_conditions", [](PackedLayout& l) { l.condition_audio_rows = 17; },
     "17 condition rows among 16 audio rows"},
    {"negative_conditions", [](PackedLayout& l) { l.condition_video_rows = -1; }, "-1 condition rows"},
    {"identity_twice", [](PackedLayout& l) { l.row_ids[4] = 5; }, "row 5 occurs twice"},
    {"positions_cut_short", [](PackedLayout& l) { l.positions.pop_back(); }, "264 tags, 791 positions"},
    {"indices_cut_short", [](PackedLayout& l) { l.timestep_indices.pop_back(); }, "263 timestep indices"},
    {"identities_cut_short", [](PackedLayout& l) { l.row_ids.pop_back(); }, "263 row ids"}};
INSTANTIATE_TEST_SUITE_P(host, SpoiledLayout, testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return std::string(info.param.name); });

struct BadRequest {
  const char* name;
  void (*action)();
  const char* says;
};
void PrintTo(const BadRequest& request, std::ostream* out) { *out << request.name; }

struct LayoutRequest : testing::TestWithParam<BadRequest> {};

TEST_P(LayoutRequest, is_refused) { EXPECT_TRUE(fails_naming(GetParam().action, {GetParam().says})); }

void fl2va(Rows tags, Target target, StepTimes times = kLater) { build_fl2va(tags, target, {}, times); }
void ref2va(Reference reference) { build_ref2va(Rows{1}, std::vector{reference}, {{1, 2, 2}, 1}, kLater); }
using Kind = Reference::Kind;

const BadRequest kBadRequests[] = {{"text_tagged_audio",
                                    [] {
                                      fl2va({1, 2}, {{1, 2, 2}, 1});
                                    },
                                    "text row 1 has tag 2"},
                                   {"text_tag_unknown",
                                    [] {
                                      fl2va({1, 7}, {{1, 2, 2}, 1});
                                    },
                                    "row 1 has tag 7"},
                                   {"odd_latent_height",
                                    [] {
                                      fl2va({1}, {{1, 3, 2}, 1});
                                    },
                                    "latent 1x3x2: not divisible by the patch"},
                                   {"odd_latent_width",
                                    [] {
                                      fl2va({1}, {{1, 2, 3}, 1});
                                    },
                                    "latent 1x2x3: not divisible by the patch"},
                                   {"no_frames",
                                    [] {
                                      fl2va({1}, {{0, 2, 2}, 1});
                                    },
                                    "latent 0x2x2: expected positive sizes"},
                                   {"negative_width",
                                    [] {
                                      fl2va({1}, {{1, 2, -2}, 1});
                                    },
                                    "latent 1x2x-2"},
                                   {"negative_audio",
                                    [] {
                                      fl2va({1}, {{1, 2, 2}, -1});
                                    },
                                    "target: -1 audio latents"},
                                   {"time_above_one",
                                    [] {
                                      fl2va({1}, {{1, 2, 2}, 1}, {0.5f, 1.5f});
                                    },
                                    "timestep 1.5"},
                                   {"time_negative",
                                    [] {
                                      fl2va({1}, {{1, 2, 2}, 1}, {-0.5f, 0.5f});
                                    },
                                    "timestep -0.5"},
                                   {"time_nan",
                                    [] {
                                      fl2va({1}, {{1, 2, 2}, 1}, {float(kNan), 0.5f});
                                    },
                                    "timestep nan"},
                                   {"image_of_two_frames",
                                    [] {
                                      ref2va({Kind::image, {2, 2, 2}, 0});
                                    },
                                    "an image of 2 latent frames"},
                                   {"odd_reference",
                                    [] {
                                      ref2va({Kind::video, {2, 2, 5}, 0});
                                    },
                                    "latent 2x2x5: not divisible"},
                                   {"empty_clip",
                                    [] {
                                      ref2va({Kind::video, {0, 2, 2}, 3});
                                    },
                                    "latent 0x2x2"},
                                   {"negative_soundtrack",
                                    [] {
                                      ref2va({Kind::video, {2, 2, 2}, -3});
                                    },
                                    "reference: -3 audio latents"},
                                   {"unknown_name", [] { named_layout("huge"); },
                                    "layout 'huge': expected one of tiny, small, medium, 768p-124f"},
                                   {"fewer_rows_than_the_shortest_text", [] { layout_of_rows(245); },
                                    "245 packed rows: expected 246 or more"},
                                   {"permutation_too_short",
                                    [] {
                                      named_layout("tiny").permuted(Rows{0, 1});
                                    },
                                    "permutation of 2 rows for a layout of 264"},
                                   {"permutation_repeats",
                                    [] {
                                      inverse_permutation(Rows{0, 2, 2});
                                    },
                                    "row 2 occurs twice"},
                                   {"permutation_outside",
                                    [] {
                                      inverse_permutation(Rows{0, 3, 1});
                                    },
                                    "entry 1 is 3, expected 0..2"}};
INSTANTIATE_TEST_SUITE_P(host, LayoutRequest, testing::ValuesIn(kBadRequests),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
