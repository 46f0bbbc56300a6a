// Sizes of a request: frames, latents, canvas; against the provider's functions and by hand.
#include "model/geometry.h"

#include <gtest/gtest.h>

#include <limits>

#include "conformance/errors.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"

namespace h3 {
namespace {

struct Fact {
  const char* name;
  void (*check)();
};
void PrintTo(const Fact& f, std::ostream* out) { *out << f.name; }

void frame_counts_match_provider_fixture() {
  const Hdf5Reader file(fixture_path("layouts.h5"));
  const auto frames = file.read_vector<std::int64_t>("geometry/frames");
  const auto aligned = file.read_vector<std::int64_t>("geometry/aligned");
  const auto latents = file.read_vector<std::int64_t>("geometry/latents");
  const auto audio = file.read_vector<std::int64_t>("geometry/audio_latents");
  ASSERT_GT(frames.size(), 345u);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(aligned_frames(frames[i]), aligned[i]) << frames[i];
    EXPECT_EQ(video_latent_frames(aligned[i]), latents[i]) << frames[i];
    EXPECT_EQ(audio_latents(frames[i]), audio[i]) << frames[i];
  }
}

void default_canvases_match_provider_fixture() {
  const Hdf5Reader file(fixture_path("layouts.h5"));
  const auto aspects = file.read_vector<double>("geometry/aspects");
  const auto canvas = file.read_vector<std::int64_t>("geometry/canvas");
  ASSERT_EQ(aspects.size(), canvas.size());
  ASSERT_GT(aspects.size(), 2000u);
  for (std::size_t i = 0; i < aspects.size(); i += 2)
    EXPECT_EQ(default_canvas(aspects[i], aspects[i + 1]), (Canvas{canvas[i], canvas[i + 1]}))
        << aspects[i] << ":" << aspects[i + 1];
}

void released_durations() {
  const std::int64_t latents[] = {37, 42, 47, 52, 57, 62, 67, 72, 77, 82, 87, 92, 97, 102};
  const std::int64_t audio[] = {207, 235, 263, 292, 320, 348, 377, 405, 433, 462, 490, 518, 547, 575};
  for (std::int64_t i = 0; i < 14; ++i) {
    const std::int64_t frames = 124 + 17 * i;
    EXPECT_EQ(video_latent_frames(frames), latents[i]);
    EXPECT_EQ(audio_latents(frames), audio[i]);
    require_duration(frames);
  }
}

void released_canvas() {
  EXPECT_EQ(default_canvas(16, 9), (Canvas{768, 1344}));
  const Target target = target_of(124, {768, 1344});
  EXPECT_EQ(target, (Target{{37, 48, 84}, 207}));
  EXPECT_EQ(rows_per_frame(target.video), 1008);
}

// 40 latents per 24 frames is 5 / 3 per frame: never a tie, but the FP64 products must not drift across one.
void audio_latents_round_to_the_nearest() {
  for (std::int64_t frames = 1; frames < 5000; ++frames) {
    const std::int64_t thirds = frames * 5;  // audio latents times 3
    EXPECT_EQ(audio_latents(frames), (thirds + 1) / 3) << frames;
  }
}

void bad_sizes_are_refused() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(fails_naming([] { aligned_frames(0); }, {"frames: 0", "at least 1"}));
  EXPECT_TRUE(fails_naming([] { video_latent_frames(125); }, {"frames: 125", "17 n + 5"}));
  EXPECT_TRUE(fails_naming([] { video_latent_frames(-12); }, {"frames: -12"}));
  EXPECT_TRUE(fails_naming([] { audio_latents(0); }, {"frames: 0"}));
  EXPECT_TRUE(fails_naming([] { require_duration(362); }, {"362", "15.083 s", "5 to 15 s"}));
  EXPECT_TRUE(fails_naming([] { require_duration(107); }, {"107", "5 to 15 s"}));
  // Aligned to 16 pixels only: the latent exists, but the patch does not divide it.
  EXPECT_TRUE(fails_naming([] { target_of(124, {768, 1360}); }, {"canvas 768x1360", "32"}));
  EXPECT_TRUE(fails_naming([] { target_of(124, {0, 1344}); }, {"canvas 0x1344"}));
  EXPECT_TRUE(fails_naming([] { target_of(124, {-32, 1344}); }, {"canvas -32x1344"}));
  EXPECT_TRUE(fails_naming([] { rows_per_frame({2, 48, 85}); }, {"latent 2x48x85", "patch 1x2x2"}));
  EXPECT_TRUE(fails_naming([] { rows_per_frame({0, 48, 84}); }, {"latent 0x48x84", "positive"}));
  EXPECT_TRUE(fails_naming([] { default_canvas(5, 1); }, {"aspect ratio 5:1", "1:4 to 4:1"}));
  EXPECT_TRUE(fails_naming([] { default_canvas(1, 0); }, {"aspect ratio 1:0"}));
  EXPECT_TRUE(fails_naming([] { default_canvas(-16, -9); }, {"aspect ratio -16:-9"}));
  EXPECT_TRUE(fails_naming([&] { default_canvas(nan, 1); }, {"aspect ratio nan:1"}));
}

struct Geometry : testing::TestWithParam<Fact> {};
TEST_P(Geometry, holds) { GetParam().check(); }

#define FACT(name) \
  { #name, name }
const Fact kFacts[] = {FACT(frame_counts_match_provider_fixture),
                       FACT(default_canvases_match_provider_fixture),
                       FACT(released_durations),
                       FACT(released_canvas),
                       FACT(audio_latents_round_to_the_nearest),
                       FACT(bad_sizes_are_refused)};
INSTANTIATE_TEST_SUITE_P(host, Geometry, testing::ValuesIn(kFacts),
                         [](const auto& info) { return std::string(info.param.name); });
#undef FACT

}  // namespace
}  // namespace h3
