// How far pictures and sound are apart: what each number is for faults whose answer is known, and what is
// refused.
#include "harness/generation/media.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/generation/reduced.h"
#include "harness/compare/compare.h"
#include "harness/generation/stand_in_decoder.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr std::int64_t kFrames = 3, kHeight = 14, kWidth = 17, kSamples = 4000;
constexpr MediaBounds kBounds = {30, 0.99, 0.01, 0.05};

// Smooth pictures that move, and a chord.
Media clip() {
  Media media{"test", Tensor(DType::fp32, {kFrames, kHeight, kWidth, 3}), Tensor(DType::fp32, {2, kSamples})};
  float* pixel = media.frames.data<float>();
  for (std::int64_t f = 0; f < kFrames; ++f)
    for (std::int64_t y = 0; y < kHeight; ++y)
      for (std::int64_t x = 0; x < kWidth; ++x)
        for (std::int64_t c = 0; c < 3; ++c)
          *pixel++ = 0.5f + 0.3f * std::sin(0.7f * float(x + f) + 0.5f * float(y) + float(c));
  for (std::int64_t channel = 0; channel < 2; ++channel)
    for (std::int64_t i = 0; i < kSamples; ++i)
      media.sound.data<float>()[channel * kSamples + i] =
          0.4f * std::sin(0.1f * float(i)) + 0.2f * std::sin(float(channel + 1) * 0.31f * float(i));
  return media;
}

Media copy_of(const Media& media) { return {media.decoder, media.frames.clone(), media.sound.clone()}; }

std::span<float> frame(Media& media, std::int64_t index) {
  const auto size = std::size_t(media.frames.elements() / media.frames.shape()[0]);
  return media.frames.values<float>().subspan(std::size_t(index) * size, size);
}

// ---- answers that are known

struct KnownRow {
  const char* name;
  std::function<void(Media&)> change;
  double psnr_db, temporal_rmse, audio_relative_l2, spectral_distance_db;
};
void PrintTo(const KnownRow& row, std::ostream* out) { *out << row.name; }

class KnownDistance : public testing::TestWithParam<KnownRow> {};

TEST_P(KnownDistance, is_measured) {
  const Media expected = clip();
  Media actual = copy_of(expected);
  GetParam().change(actual);
  const MediaComparison c = compare_media(expected, actual);
  if (std::isinf(GetParam().psnr_db)) {
    EXPECT_EQ(c.psnr_db, GetParam().psnr_db);
  } else {
    EXPECT_NEAR(c.psnr_db, GetParam().psnr_db, 1e-4);
  }
  EXPECT_NEAR(c.temporal_rmse, GetParam().temporal_rmse, 1e-6);
  EXPECT_NEAR(c.audio_relative_l2, GetParam().audio_relative_l2, 1e-3);
  EXPECT_NEAR(c.spectral_distance_db, GetParam().spectral_distance_db, 1e-2);
}

const double kNone = std::numeric_limits<double>::infinity();
const KnownRow kKnown[] = {
    {"nothing", [](Media&) {}, kNone, 0, 0, 0},
    // 20 log10(1 / 0.1); the same offset everywhere does not move
    {"brighter",
     [](Media& m) {
       for (float& v : m.frames.values<float>()) v += 0.1f;
     },
     20, 0, 0, 0},
    // a third of the frames: 20 + 10 log10(3); it appears and is gone again: 0.1 at both changes
    {"one_frame_brighter",
     [](Media& m) {
       for (float& v : frame(m, 1)) v += 0.1f;
     },
     24.77121, 0.1, 0, 0},
    // the last frame: one change of two
    {"last_frame_brighter",
     [](Media& m) {
       for (float& v : frame(m, 2)) v += 0.1f;
     },
     24.77121, 0.0707107, 0, 0},
    // 20 log10(1.05)
    {"louder",
     [](Media& m) {
       for (float& v : m.sound.values<float>()) v *= 1.05f;
     },
     kNone, 0, 0.05, 0.423786},
    // 20 log10(2)
    {"half_as_loud",
     [](Media& m) {
       for (float& v : m.sound.values<float>()) v /= 2;
     },
     kNone, 0, 0.5, 6.0206},
};
INSTANTIATE_TEST_SUITE_P(generation, KnownDistance, testing::ValuesIn(kKnown),
                         [](const auto& info) { return info.param.name; });

// ---- SSIM against its definition, window by window

class Ssim : public testing::TestWithParam<const char*> {};

double ssim_by_definition(std::span<const float> a, std::span<const float> b) {
  constexpr std::int64_t kReach = 5;
  const double c1 = 1e-4, c2 = 9e-4;
  double sum = 0;
  std::int64_t windows = 0;
  for (std::int64_t colour = 0; colour < 3; ++colour)
    for (std::int64_t y = kReach; y < kHeight - kReach; ++y)
      for (std::int64_t x = kReach; x < kWidth - kReach; ++x, ++windows) {
        double weight = 0, ma = 0, mb = 0, va = 0, vb = 0, vab = 0;
        for (const bool second : {false, true})  // means first, then what is around them
          for (std::int64_t dy = -kReach; dy <= kReach; ++dy)
            for (std::int64_t dx = -kReach; dx <= kReach; ++dx) {
              const auto at = std::size_t(((y + dy) * kWidth + x + dx) * 3 + colour);
              const double w = std::exp(-double(dx * dx + dy * dy) / 4.5);
              if (second) {
                va += w / weight * (a[at] - ma) * (a[at] - ma);
                vb += w / weight * (b[at] - mb) * (b[at] - mb);
                vab += w / weight * (a[at] - ma) * (b[at] - mb);
              } else {
                weight += w, ma += w * a[at], mb += w * b[at];
              }
              if (!second && dy == kReach && dx == kReach) ma /= weight, mb /= weight;
            }
        sum += (2 * ma * mb + c1) * (2 * vab + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
      }
  return sum / double(windows);
}

TEST_P(Ssim, is_what_its_definition_says) {
  Media expected = clip(), actual = clip();
  const Tensor noise = synthetic_activation(7, "noise", actual.frames.shape(), DType::fp32);
  for (std::int64_t i = 0; i < noise.elements(); ++i) actual.frames.data<float>()[i] += 0.05f * noise.at(i);
  const MediaComparison c = compare_media(expected, actual);
  for (std::int64_t f = 0; f < kFrames; ++f) {
    const double ssim = ssim_by_definition(frame(expected, f), frame(actual, f));
    EXPECT_NEAR(c.ssim_of_frame[std::size_t(f)], ssim, 1e-9) << f;
    EXPECT_LT(ssim, 0.99);
  }
  EXPECT_EQ(compare_media(expected, expected).ssim, 1);
}

INSTANTIATE_TEST_SUITE_P(generation, Ssim, testing::Values("moving_pictures"),
                         [](const auto& info) { return std::string(info.param); });

// ---- every bound notices a fault of its own, and lets a smaller one pass

struct FaultRow {
  const char* name;
  std::function<void(Media&, float size)> fault;
  float small, large;
  const char* refused_by;
};
void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.name; }

class MediaFault : public testing::TestWithParam<FaultRow> {
 protected:
  static std::vector<BoundVerdict> verdicts(float size) {
    const Media expected = clip();
    Media actual = copy_of(expected);
    GetParam().fault(actual, size);
    return judge(kBounds, compare_media(expected, actual));
  }
};

TEST_P(MediaFault, is_refused_by_its_bound) {
  for (const BoundVerdict& verdict : verdicts(GetParam().small))
    EXPECT_TRUE(verdict.accepted) << verdict.metric;
  for (const BoundVerdict& verdict : verdicts(GetParam().large)) {
    if (verdict.metric == GetParam().refused_by) {
      EXPECT_FALSE(verdict.accepted) << verdict.measured;
    }
  }
}

void brighten(Media& media, float size) {
  for (float& value : media.frames.values<float>()) value += size;
}
void flicker(Media& media, float size) {
  for (float& value : frame(media, 1)) value += size;
}
void grain(Media& media, float size) {
  const Tensor noise = synthetic_activation(7, "noise", media.frames.shape(), DType::fp32);
  for (std::int64_t i = 0; i < noise.elements(); ++i) media.frames.data<float>()[i] += size * noise.at(i);
}
void detune(Media& media, float size) {
  for (std::int64_t i = 0; i < kSamples; ++i)
    media.sound.data<float>()[i] += size * std::sin(0.1003f * float(i));
}

const FaultRow kFaults[] = {
    {"brightness", brighten, 0.031f, 0.032f, "psnr_db"},
    {"flicker", flicker, 0.0099f, 0.0101f, "temporal_rmse"},
    {"grain", grain, 0.004f, 0.03f, "ssim"},
    {"grain_moves", grain, 0.004f, 0.02f, "temporal_rmse"},
    {"another_tone", detune, 0.01f, 0.1f, "audio_relative_l2"},
};
INSTANTIATE_TEST_SUITE_P(generation, MediaFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct BadMedia {
  const char* name;
  std::function<void(Media&)> change;
  const char* says;
};
void PrintTo(const BadMedia& row, std::ostream* out) { *out << row.name; }

class MediaBadInput : public testing::TestWithParam<BadMedia> {};

TEST_P(MediaBadInput, is_refused) {
  const Media expected = clip();
  Media actual = copy_of(expected);
  GetParam().change(actual);
  EXPECT_TRUE(fails_naming([&] { compare_media(expected, actual); }, {GetParam().says}));
}

const BadMedia kBadMedia[] = {
    {"another_decoder", [](Media& m) { m.decoder = "other"; }, "decoded by 'test' and by 'other'"},
    {"a_frame_less", [](Media& m) { m.frames = m.frames.row_range(0, 2); },
     "frames are 3x14x17x3 and 2x14x17x3"},
    {"mono", [](Media& m) { m.sound = m.sound.row_range(0, 1); }, "sound are 2x4000 and 1x4000"},
    {"not_a_number", [](Media& m) { m.frames.data<float>()[9] = NAN; }, "frames: not finite"},
    {"infinite_sound", [](Media& m) { m.sound.data<float>()[9] = INFINITY; }, "sound: not finite"},
};
INSTANTIATE_TEST_SUITE_P(generation, MediaBadInput, testing::ValuesIn(kBadMedia),
                         [](const auto& info) { return info.param.name; });

// ---- the stand-in decoder

class StandIn : public testing::TestWithParam<const char*> {
 protected:
  const GenerationContract contract = read_contract(contract_file(GetParam()));
  GenerationState state = initial_state(contract, 42, keyframe_latents(contract));
};

TEST_P(StandIn, makes_media_of_the_right_length_and_says_who_it_is) {
  const Media media = decode_stand_in(contract, state);
  EXPECT_EQ(media.frames.shape(),
            (Shape{contract.frames, contract.canvas.height / 4, contract.canvas.width / 4, 3}));
  EXPECT_EQ(media.sound.shape(), (Shape{2, contract.target().audio_latents * 800}));
  EXPECT_EQ(media.decoder, kStandInDecoder);
  for (const float value : media.frames.values<float>()) ASSERT_TRUE(value >= 0 && value <= 1);
}

TEST_P(StandIn, lets_every_generated_element_be_seen_or_heard) {
  const Media before = decode_stand_in(contract, state);
  const PackedLayout layout = contract.layout(0);
  const std::int64_t conditions = layout.condition_video_rows * state.video_rows.cols();
  for (std::int64_t i = 0; i < state.video_rows.elements(); i += i < conditions ? 97 : 61) {
    GenerationState changed = {state.video_rows.clone(), state.audio_rows};
    changed.video_rows.data<float>()[i] += 0.5f;
    EXPECT_EQ(compare(before.frames, decode_stand_in(contract, changed).frames).same_bits(), i < conditions)
        << i;
  }
  for (std::int64_t i = 0; i < state.audio_rows.elements(); i += 61) {
    GenerationState changed = {state.video_rows, state.audio_rows.clone()};
    changed.audio_rows.data<float>()[i] += 0.5f;
    EXPECT_FALSE(compare(before.sound, decode_stand_in(contract, changed).sound).same_bits()) << i;
  }
}

TEST_P(StandIn, is_kept_in_a_file) {
  const Scratch scratch;
  const Media media = decode_stand_in(contract, state);
  write_media(scratch.path("media.h5"), media);
  const Media again = read_media(scratch.path("media.h5"));
  EXPECT_TRUE(bitwise_equal(media.frames, again.frames));
  EXPECT_TRUE(bitwise_equal(media.sound, again.sound));
  EXPECT_EQ(media.decoder, again.decoder);
}

INSTANTIATE_TEST_SUITE_P(generation, StandIn, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
