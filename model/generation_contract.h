// What a generation has to be: the model and its weights, the request, seeds and schedules, and the bounds
// that its decoded media are judged by. All of it is fixed in a file before anything runs; a run names the
// file by its SHA-256. fixtures/generation holds the contracts of the gate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/geometry.h"
#include "model/layout.h"
#include "model/scheduler.h"

namespace h3 {

struct MediaBounds {
  double psnr_db;            // at least
  double ssim;               // at least
  double temporal_rmse;      // at most, of frame to frame changes, frames in [0, 1]
  double audio_relative_l2;  // at most
};

struct GenerationContract {
  std::string text;    // the file's own bytes
  std::string sha256;  // of them

  std::string config_name;  // "released" or "reduced"
  Config config;
  std::string weights;             // as Weights::identity() says it
  std::uint64_t weights_seed = 0;  // of synthetic ones
  bool synthetic_weights = false;
  std::uint64_t condition_seed = 0;  // text rows and keyframe latents: functions of (seed, name, index)

  std::int64_t frames = 0;
  Canvas canvas = {};
  std::vector<Anchor> keyframes;
  std::int64_t text_rows = 0, vision_rows = 0;
  std::vector<std::uint64_t> seeds;
  std::int64_t grid_points = 0;  // the final 0 counts: one evaluation less is run
  double video_shift = 0, audio_shift = 0;
  MediaBounds bounds = {};

  std::int64_t evaluations() const { return grid_points - 1; }
  Schedule video_schedule() const { return make_schedule(grid_points, video_shift); }
  Schedule audio_schedule() const { return make_schedule(grid_points, audio_shift); }
  Target target() const { return target_of(frames, canvas); }
  PackedLayout layout(std::int64_t evaluation) const;
  void require_seed(std::uint64_t seed) const;
};

// `what` names the text in errors. Errors, one line each: a field that is missing, unknown or outside its
// range; a layout whose digest is not the recorded one.
GenerationContract parse_contract(const std::string& text, const std::string& what);
GenerationContract read_contract(const std::string& path);

}  // namespace h3
