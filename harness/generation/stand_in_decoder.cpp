#include "harness/generation/stand_in_decoder.h"

#include <cmath>

#include "kernels/video_patch_pack_unpack.h"
#include "model/parallel.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr std::int64_t kPixels = 4, kColours = 3;  // pixels of a latent, each way
constexpr std::int64_t kSpans[] = {1, 4, 4, 4, 4};
constexpr std::int64_t kSamples = kAudioSampleRate / kAudioLatentsPerSecond;

Tensor weights(const char* name, const Shape& shape) {
  return synthetic_activation(1, std::string("stand_in_decoder.") + name, shape, DType::fp32);
}

float squeezed(float x) { return 0.5f + 0.5f * x / (1 + std::fabs(x)); }

// A wave between -1 and 1 that no library has to compute: two parabolas.
float wave(std::int64_t sample, std::int64_t cycles) {
  const std::int64_t place = sample * cycles % kSamples, half = kSamples / 2;
  const float x = float(place % half) / float(half), arch = 4 * x * (1 - x);
  return place < half ? arch : -arch;
}

Tensor latents_of(const GenerationContract& contract, const Tensor& rows) {
  const LatentGrid grid = contract.target().video;
  const Config& config = contract.config;
  Tensor latents(DType::fp32, {1, config.in_channels, grid.frames, grid.height, grid.width});
  kernels::video_patch_unpack(rows.reshaped({1, rows.rows(), rows.cols()}),
                              {config.patch_t, config.patch_h, config.patch_w}, latents);
  return latents;
}

Tensor frames_of(const GenerationContract& contract, const Tensor& latents) {
  const LatentGrid grid = contract.target().video;
  const std::int64_t channels = contract.config.in_channels, area = grid.height * grid.width;
  const std::int64_t height = grid.height * kPixels, width = grid.width * kPixels;
  const Tensor mixture = weights("video", {kPixels * kPixels * kColours, channels});
  const float scale = 1 / std::sqrt(float(channels));
  struct Source {
    std::int64_t latent_frame;
    float share;  // of it; the rest is of the one before
  };
  std::vector<Source> sources;
  for (std::int64_t f = 0; f < grid.frames; ++f) {
    const std::int64_t span = kSpans[f % 5];
    for (std::int64_t i = 1; i <= span; ++i) sources.push_back({f, f == 0 ? 1 : float(i) / float(span)});
  }
  require(std::int64_t(sources.size()) == contract.frames, "stand-in decoder: {} frames, expected {}",
          sources.size(), contract.frames);
  Tensor frames(DType::fp32, {contract.frames, height, width, kColours});
  const float *z = latents.data<float>(), *w = mixture.data<float>();
  parallel_for(0, contract.frames, 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> latent(static_cast<std::size_t>(channels));
    for (std::int64_t f = first; f < last; ++f) {
      const Source source = sources[std::size_t(f)];
      const std::int64_t before = std::max<std::int64_t>(source.latent_frame - 1, 0);
      float* frame = frames.data<float>() + f * height * width * kColours;
      for (std::int64_t place = 0; place < area; ++place) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const float* of_channel = z + c * grid.frames * area + place;
          latent[std::size_t(c)] = source.share * of_channel[source.latent_frame * area] +
                                   (1 - source.share) * of_channel[before * area];
        }
        for (std::int64_t pixel = 0; pixel < kPixels * kPixels * kColours; ++pixel) {
          float sum = 0;
          for (std::int64_t c = 0; c < channels; ++c) sum += w[pixel * channels + c] * latent[std::size_t(c)];
          const std::int64_t y = place / grid.width * kPixels + pixel / (kPixels * kColours),
                             x = place % grid.width * kPixels + pixel / kColours % kPixels;
          frame[(y * width + x) * kColours + pixel % kColours] = squeezed(sum * scale);
        }
      }
    }
  });
  return frames;
}

Tensor sound_of(const GenerationContract& contract, const Tensor& rows) {
  const std::int64_t latents = contract.target().audio_latents, overtones = rows.cols();
  const float scale = 1 / std::sqrt(float(overtones));
  Tensor sound(DType::fp32, {kAudioChannels, latents * kSamples});
  for (std::int64_t row = 0; row < kAudioChannels * latents; ++row)
    for (std::int64_t i = 0; i < kSamples; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < overtones; ++k)
        sum += wave(i, k + 1) * rows.data<float>()[row * overtones + k];
      sound.data<float>()[row * kSamples + i] = sum * scale;
    }
  return sound;
}

}  // namespace

Media decode_stand_in(const GenerationContract& contract, const GenerationState& state) {
  const PackedLayout layout = contract.layout(0);
  const auto generated = [](const Tensor& rows, std::int64_t conditions) {
    return rows.row_range(conditions, rows.rows() - conditions);
  };
  const Tensor video = generated(state.video_rows, layout.condition_video_rows),
               audio = generated(state.audio_rows, layout.condition_audio_rows);
  return {kStandInDecoder, frames_of(contract, latents_of(contract, video)), sound_of(contract, audio)};
}

}  // namespace h3
