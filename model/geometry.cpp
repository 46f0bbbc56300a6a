#include "model/geometry.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace h3 {

std::int64_t aligned_frames(std::int64_t requested) {
  require(requested >= 1, "frames: {}, expected at least 1", requested);
  while (requested % kFramesPerChunk != kLatentsPerChunk) ++requested;
  return requested;
}

std::int64_t video_latent_frames(std::int64_t frames) {
  require(frames > 0 && frames % kFramesPerChunk == kLatentsPerChunk, "frames: {}, expected 17 n + 5",
          frames);
  return (frames - kLatentsPerChunk) / kFramesPerChunk * kLatentsPerChunk + 2;
}

std::int64_t audio_latents(std::int64_t frames) {
  require(frames >= 1, "frames: {}, expected at least 1", frames);
  return std::int64_t(
      std::nearbyint(double(frames) / double(kFramesPerSecond) * double(kAudioLatentsPerSecond)));
}

void require_duration(std::int64_t frames) {
  const double seconds = double(frames) / double(kFramesPerSecond);
  require(seconds >= 5.0 && seconds <= 15.0, "frames: {} last {:.3f} s, expected 5 to 15 s", frames, seconds);
}

Target target_of(std::int64_t frames, Canvas canvas) {
  require(canvas.height > 0 && canvas.width > 0 && canvas.height % kCanvasMultiple == 0 &&
              canvas.width % kCanvasMultiple == 0,
          "canvas {}x{}: expected multiples of {} pixels", canvas.height, canvas.width, kCanvasMultiple);
  return {{video_latent_frames(frames), canvas.height / kPixelsPerLatent, canvas.width / kPixelsPerLatent},
          audio_latents(frames)};
}

Canvas default_canvas(double aspect_width, double aspect_height) {
  constexpr double kShortEdge = 768, kMaxPixels = 768 * 1344;
  const double ratio = aspect_width / aspect_height;
  require(aspect_width > 0 && aspect_height > 0 && ratio >= 0.25 && ratio <= 4.0,
          "aspect ratio {}:{}: expected 1:4 to 4:1", aspect_width, aspect_height);
  double width = ratio >= 1.0 ? kShortEdge * ratio : kShortEdge;
  double height = ratio >= 1.0 ? kShortEdge : kShortEdge / ratio;
  const double area = width * height;
  if (area > kMaxPixels) {
    const double scale = std::pow(kMaxPixels / area, 0.5);
    width *= scale;
    height *= scale;
  }
  const auto rounded = [](double side) {
    const auto multiples = std::int64_t(std::nearbyint(side / double(kCanvasMultiple)));
    return std::max(kCanvasMultiple, multiples * kCanvasMultiple);
  };
  return {rounded(height), rounded(width)};
}

std::int64_t rows_per_frame(const LatentGrid& grid, const Config& config) {
  require(grid.frames > 0 && grid.height > 0 && grid.width > 0, "latent {}x{}x{}: expected positive sizes",
          grid.frames, grid.height, grid.width);
  require(grid.frames % config.patch_t == 0 && grid.height % config.patch_h == 0 &&
              grid.width % config.patch_w == 0,
          "latent {}x{}x{}: not divisible by the patch {}x{}x{}", grid.frames, grid.height, grid.width,
          config.patch_t, config.patch_h, config.patch_w);
  return (grid.height / config.patch_h) * (grid.width / config.patch_w);
}

}  // namespace h3
