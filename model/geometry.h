// Sizes of a request: pixels and frames to latents and packed rows. Source: diffusers' modular_pipeline.py.
#pragma once

#include <cstdint>

#include "model/config.h"

namespace h3 {

inline constexpr std::int64_t kFramesPerSecond = 24;
inline constexpr std::int64_t kAudioLatentsPerSecond = 40;
inline constexpr std::int64_t kAudioSampleRate = 32000;
inline constexpr std::int64_t kAudioChannels = 2;     // stereo, packed channel by channel
inline constexpr std::int64_t kPixelsPerLatent = 16;  // both axes
inline constexpr std::int64_t kCanvasMultiple = 32;   // a latent patch of 2 x 2
inline constexpr std::int64_t kFramesPerChunk = 17;   // pixel frames the video VAE encodes to 5 latent frames
inline constexpr std::int64_t kLatentsPerChunk = 5;

struct Canvas {
  std::int64_t height, width;  // pixels
  bool operator==(const Canvas&) const = default;
};

// Latent sizes, not patch counts.
struct LatentGrid {
  std::int64_t frames, height, width;
  bool operator==(const LatentGrid&) const = default;
};

// What a request generates.
struct Target {
  LatentGrid video;
  std::int64_t audio_latents;  // per channel
  bool operator==(const Target&) const = default;
};

std::int64_t aligned_frames(std::int64_t requested);    // smallest 17 n + 5 that is not below it
std::int64_t video_latent_frames(std::int64_t frames);  // 5 n + 2; error when frames is not 17 n + 5
std::int64_t audio_latents(std::int64_t frames);        // frames / 24 * 40 in FP64, rounded half to even
void require_duration(std::int64_t frames);             // error outside 5..15 seconds: 124..345 frames

// Error when a side is not a positive multiple of 32.
Target target_of(std::int64_t frames, Canvas canvas);

// The canvas of an aspect ratio: short edge 768, at most 768 * 1344 pixels, each side rounded (half to even)
// to a multiple of 32. Error outside 1:4 .. 4:1.
Canvas default_canvas(double aspect_width, double aspect_height);

// Packed rows of a latent grid. Error when the patch (1, 2, 2) does not divide it.
std::int64_t rows_per_frame(const LatentGrid& grid, const Config& config = {});

}  // namespace h3
