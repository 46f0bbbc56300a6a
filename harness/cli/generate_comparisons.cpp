// h3 generate compare, media: where two trajectories part, and how far apart they look and sound.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/cli/generate_parts.h"
#include "harness/generation/pictures.h"
#include "harness/generation/stand_in_decoder.h"
#include "harness/generation/trajectory.h"

namespace h3::cli {
namespace {

void compare_trajectories(const std::string& a, const std::string& b, bool as_json) {
  const Trajectory expected(trajectory_path(a)), actual(trajectory_path(b));
  const DriftReport report = drift_report(expected, actual);
  if (as_json) {
    std::printf("%s\n", to_json(report).dump(2).c_str());
  } else {
    std::printf("step   video velocity  audio velocity      video rows      audio rows   (relative L2)\n");
    for (const StepDistance& step : report.steps)
      std::printf("%4lld %16.3e %15.3e %15.3e %15.3e\n", static_cast<long long>(step.evaluation),
                  step.video_velocity, step.audio_velocity, step.video_rows, step.audio_rows);
    std::printf("first_drift: %s\n", report.first ? report.first->to_string().c_str() : "none");
  }
  if (!report.same()) throw CheckFailed();
}

struct Decoded {
  std::string a, b;              // trajectories
  std::string media_a, media_b;  // decoded elsewhere; empty: by the stand-in
  std::string pictures;          // folder
  bool json = false;
};

void compare_decoded(const Decoded& options) {
  const Trajectory expected(trajectory_path(options.a)), actual(trajectory_path(options.b));
  require_same_start(expected, actual);
  const auto decoded = [](const Trajectory& trajectory, const std::string& file) {
    if (!file.empty()) return read_media(file);
    return decode_stand_in(trajectory.contract(), state_of(trajectory.step(trajectory.evaluations() - 1)));
  };
  const Media media_a = decoded(expected, options.media_a), media_b = decoded(actual, options.media_b);
  const MediaComparison comparison = compare_media(media_a, media_b);
  const MediaBounds bounds = expected.contract().bounds;
  const auto verdicts = judge(bounds, comparison);
  if (!options.pictures.empty())
    write_pictures(options.pictures, bounds, media_a, media_b, comparison, drift_report(expected, actual));
  if (options.json) {
    std::printf("%s\n", to_json(comparison, verdicts).dump(2).c_str());
  } else {
    std::printf("decoded by            %s\n", comparison.decoder.c_str());
    for (const BoundVerdict& verdict : verdicts)
      std::printf("%-20s %10.4g   bound %g: %s\n", verdict.metric.c_str(), verdict.measured, verdict.limit,
                  verdict.accepted ? "accepted" : "refused");
    std::printf("%-20s %10.4g   dB, reported only\n", "spectral_distance", comparison.spectral_distance_db);
  }
  if (!std::ranges::all_of(verdicts, &BoundVerdict::accepted)) throw CheckFailed();
}

}  // namespace

void add_generate_comparisons(CLI::App& generate) {
  struct Pair {
    std::string a, b;
    bool json = false;
  };
  auto pair = std::make_shared<Pair>();
  auto* compare = generate.add_subcommand("compare", "Where two trajectories of one contract and seed part");
  compare->add_option("expected", pair->a, "trajectory.h5, or a run's folder")->required();
  compare->add_option("actual", pair->b, "trajectory.h5, or a run's folder")->required();
  compare->add_flag("--json", pair->json, "print the report as JSON");
  compare->callback([=] { compare_trajectories(pair->a, pair->b, pair->json); });

  auto decoded = std::make_shared<Decoded>();
  auto* media = generate.add_subcommand("media", "Pictures and sound of two trajectories against the bounds");
  media->add_option("expected", decoded->a, "trajectory.h5, or a run's folder")->required();
  media->add_option("actual", decoded->b, "trajectory.h5, or a run's folder")->required();
  auto* first = media->add_option("--expected-media", decoded->media_a,
                                  "decoded elsewhere (harness/generation/media.h)");
  media->add_option("--actual-media", decoded->media_b, "likewise")->needs(first);
  media->add_flag("--json", decoded->json, "print the report as JSON, with a number per frame");
  media->add_option("--pictures", decoded->pictures,
                    "write frames.png, frames.svg and steps.svg into this folder");
  media->callback([=] { compare_decoded(*decoded); });
}

}  // namespace h3::cli
