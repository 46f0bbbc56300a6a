// A few rows of a trajectory, small enough to be sent or committed: what somebody without the gigabytes of
// the whole record can still derive again. Rows are drawn by the seal, which nobody has before the last step
// is done.
//
// excerpt.h5
//   attributes of /   schema, contract, identity, seal: the trajectory's; drawn: rows of each modality
//   step_000/ ...     attributes inputs, link, and of each tensor of the step its SHA-256 as <tensor>_sha256
//   rows/             video_velocity, audio_velocity, video_rows, audio_rows: (steps, drawn, channels) FP32
//
// Derived again: all noise and the first link, what the first evaluation was given, the whole chain and its
// seal, which rows the seal draws, and every Euler step of those from their noise to the end. Not derived:
// that the drawn rows lie in the tensors whose digests the chain holds; for that verify the trajectory
// itself.
#pragma once

#include <string>

#include "harness/generation/trajectory.h"

namespace h3 {

inline constexpr std::int64_t kDrawnRows = 16;

// Appears under its name only when it is complete. Errors: fewer than 1 row asked for.
void write_excerpt(const std::string& path, const Trajectory& trajectory, std::int64_t drawn = kDrawnRows);

bool is_excerpt(const std::string& path);

struct VerifiedExcerpt {
  RunIdentity identity;
  std::int64_t evaluations = 0, drawn = 0;
};
// An Error names the first thing that does not follow.
VerifiedExcerpt verify_excerpt(const std::string& path);

}  // namespace h3
