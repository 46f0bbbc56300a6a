// What a comparison of two generations looks like: a strip of frames as PNG, curves as SVG. No library, no
// script and no style sheet: every viewer and every CI server shows them.
#pragma once

#include <string>
#include <vector>

#include "harness/generation/media.h"
#include "harness/generation/trajectory.h"
#include "harness/report/svg.h"

namespace h3 {

// (height, width, 3) FP32, clamped to [0, 1], as an uncompressed 8-bit PNG.
std::string png_of(const Tensor& image);

// Up to `most` frames, evenly spread, side by side: expected, below it actual, below that eight times their
// difference around grey.
Tensor frame_strip(const Media& expected, const Media& actual, std::int64_t most = 8);

struct Curve {
  std::string name;
  std::vector<double> values;  // one per frame or step; what is not finite is left out
  double limit;                // drawn as a line; NaN: none
};

// One panel per curve, with its smallest and largest value. `logarithmic`: zeros are left out, too.
std::string svg_of(const std::string& title, const std::string& axis, const std::vector<Curve>& curves,
                   bool logarithmic, const Style& style = {.width = 650});

// frames.png, frames.svg (PSNR, SSIM and temporal RMSE per frame) and steps.svg (distance per step).
void write_pictures(const std::string& folder, const MediaBounds& bounds, const Media& expected,
                    const Media& actual, const MediaComparison& comparison, const DriftReport& drift);

}  // namespace h3
