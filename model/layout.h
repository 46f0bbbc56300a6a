// The packed sequence: one row order for text, conditions, audio and video, and everything the transformer
// needs to know about a row. Bitwise as the provider's build_packed_sequence, build_ref2va_packed_sequence
// and build_row_timesteps (diffusers 0.42.1, before_denoise.py).
//
// Row order
//   T2VA    text | target audio | target video
//   FL2VA   text | keyframe blocks in request order | target audio | target video
//   Ref2VA  text | reference blocks in request order | target audio | target video
// A video block is frame-major, then patch rows, then patch columns. An audio block holds all latents of
// channel 0, then all of channel 1. A soundtrack directly precedes the rows of its video.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/geometry.h"
#include "model/tensor.h"

namespace h3 {

enum class Task { t2va, fl2va, ref2va };

// Timesteps of one evaluation: the video and the audio schedule at the same index.
struct StepTimes {
  float video, audio;
};

inline constexpr double kConditionTime = 0.999;  // visual conditions are held just short of clean

struct PackedLayout {
  Task task = Task::t2va;
  std::vector<std::int64_t> token_tags;  // (S) Tag; a vision block inside the text is tagged video
  std::vector<double> positions;         // (S, 3) rotary t, h, w; one unit of t is 1/40 s
  // Rows of each stream, in the order of the stream's own tensor, conditions first; together every row once.
  std::vector<std::int64_t> text_indices, video_indices, audio_indices;
  std::int64_t condition_video_rows = 0, condition_audio_rows = 0;
  // Identity of a row: its place in the provider's packed order. Tag and position are not enough (a "first"
  // keyframe shares both with frame 0 of the target), so the identity is carried, and a permutation moves it
  // with the row.
  std::vector<std::int64_t> row_ids;  // (S)

  std::vector<float> timesteps;  // (U) distinct times of this evaluation, ascending, within [0, 1]
  std::vector<std::int64_t> timestep_indices;  // (S) row -> index into timesteps

  std::int64_t rows() const { return std::int64_t(token_tags.size()); }         // S
  std::int64_t text_rows() const { return std::int64_t(text_indices.size()); }  // L

  // Row of the AdaLN table of each packed row: 3 * timestep index + tag.
  std::vector<std::int64_t> adaln_indices() const;

  // Times of another evaluation. Text and target video rows take `video`, target audio rows `audio`, visual
  // conditions max(video, 0.999), reference audio 1. Equal times merge. Error outside [0, 1].
  void set_times(StepTimes times);

  // The same rows in another order: row i of the result is row permutation[i] of this layout. Every
  // permutation of the rows is legal; the streams keep their own order, only the rows they name move.
  PackedLayout permuted(std::span<const std::int64_t> permutation) const;

  // canonical[i] is the row of this layout that comes i-th in canonical order: ascending row_ids, i.e. the
  // provider's packed order. For a layout as built it is 0, 1, 2, ...; permuted(canonical_order()) undoes a
  // permutation.
  std::vector<std::int64_t> canonical_order() const;

  // Errors, one line each: no rows, lengths that disagree, a tag outside 0..2 or of another stream, a
  // timestep outside [0, 1] or not named, a position that is not finite, a row missing, doubled or outside.
  void validate() const;

  // SHA-256 of: "h3_packed_layout_1\n", then for each of token_tags, positions, text_indices, video_indices,
  // audio_indices, (condition_video_rows, condition_audio_rows), timesteps, timestep_indices: the count as
  // int64, then the values; int64, float64 and (timesteps) float32, all little-endian.
  std::string sha256() const;

  Tensor token_tags_tensor() const;        // (S) i64
  Tensor positions_tensor() const;         // (S, 3) fp64
  Tensor timesteps_tensor() const;         // (U) fp32
  Tensor timestep_indices_tensor() const;  // (S) i64
  Tensor adaln_indices_tensor() const;     // (S) i64
};

// inverse[permutation[i]] = i. Error when a row is missing or doubled.
std::vector<std::int64_t> inverse_permutation(std::span<const std::int64_t> permutation);

enum class Anchor { first, last };  // the end of the video that a keyframe is tied to

struct Reference {
  enum class Kind { image, audio, video } kind;
  LatentGrid video = {};           // image (1 frame) and video
  std::int64_t audio_latents = 0;  // per channel: audio, and the soundtrack of a video (0: none)
};

// Both return a validated layout. `text_tags`: 1, and 0 for the rows of a vision block; may be empty. Without
// anchors the task is T2VA. Sizes are independent, as in the provider: no duration limit, no rule between
// frames and audio latents.
// Errors: a latent that the patch (1, 2, 2) does not divide, a size that is not positive, negative audio
// latents, a text tag that is neither 0 nor 1, a time outside [0, 1], an image of more than one frame.
PackedLayout build_fl2va(std::span<const std::int64_t> text_tags, const Target& target,
                         std::span<const Anchor> anchors, StepTimes times, const Config& config = {});

PackedLayout build_ref2va(std::span<const std::int64_t> text_tags, std::span<const Reference> references,
                          const Target& target, StepTimes times, const Config& config = {});

// Tags of a text with keyframes: per keyframe 4 label rows and its vision block, tagged video; then the
// prompt. Error when the text is shorter than its blocks.
std::vector<std::int64_t> keyframe_text_tags(std::int64_t text_rows, std::int64_t vision_rows,
                                             std::int64_t keyframes);

// The layouts that gates are run on: FL2VA at evaluation 20 of the 50-point schedules, so that three times
// occur {video, audio, 0.999}. Pinned by SHA-256 in conformance/host/layout.cpp. How the rows are split is
// this suite's own choice within the provider's rule:
//   tiny       S =   264   32 text, keyframe first (8x9 patches), 2 x 8 audio, 2 frames
//   small      S =   925   32 text, keyframes first and last (7x13), 2 x 37 audio, 7 frames
//   medium     S =  3160   1070 text, keyframes first and last (14x16), 2 x 37 audio, 7 frames
//   768p-124f  S = 38974   256 text, keyframe first (24x42: 1344x768 pixels), 2 x 207 audio, 37 frames
// medium reaches rotary times above 1000, where unreduced angles fail.
std::vector<std::string> layout_names();
PackedLayout named_layout(std::string_view name);  // error naming the known ones

// As tiny, with as much text as makes it this many rows; error below 246.
PackedLayout layout_of_rows(std::int64_t rows);

}  // namespace h3
