// Decoded pictures and sound, and how far two of them are apart.
#pragma once

#include <string>
#include <vector>

#include "model/generation_contract.h"
#include "model/json.h"
#include "model/tensor.h"

namespace h3 {

struct Media {
  std::string decoder;  // what decoded it, for every report
  Tensor frames;        // (frames, height, width, 3) FP32 in [0, 1]
  Tensor sound;         // (channels, samples) FP32 at kAudioSampleRate
};

// media.h5: datasets frames and sound (FP32), attribute decoder.
Media read_media(const std::string& path);
void write_media(const std::string& path, const Media& media);

// One number per frame where it says so; the whole beside it.
struct MediaComparison {
  std::string decoder;
  std::vector<double> psnr_db_of_frame, ssim_of_frame;
  std::vector<double> temporal_rmse_of_frame;  // of the change from each frame to the next
  double psnr_db = 0;                          // over all frames; infinite for the same bytes
  double ssim = 0;                             // mean over frames
  double temporal_rmse = 0;                    // over all changes
  double audio_relative_l2 = 0;                // over both channels
  double spectral_distance_db = 0;             // root mean square over time and frequency
};

// SSIM: Gaussian window of 11 x 11, sigma 1.5, K1 0.01, K2 0.03, windows that lie inside, mean over the three
// colours. Spectra: Hann windows of 1024 samples, half overlapping, bins that either side has above -60 dB of
// the loudest, no deeper than -80 dB. Errors: other decoders, other shapes, something that is not finite, a
// picture smaller than a window.
MediaComparison compare_media(const Media& expected, const Media& actual);

struct BoundVerdict {
  std::string metric;
  double measured, limit;
  bool accepted;
};
std::vector<BoundVerdict> judge(const MediaBounds& bounds, const MediaComparison& comparison);

nlohmann::ordered_json to_json(const MediaComparison& comparison, const std::vector<BoundVerdict>& verdicts);

}  // namespace h3
