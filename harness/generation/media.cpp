#include "harness/generation/media.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "fixtures/hdf5.h"
#include "model/error.h"
#include "model/parallel.h"

namespace h3 {
namespace {

constexpr std::int64_t kColours = 3;

void require_finite(const std::string& what, const Tensor& tensor) {
  const auto values = tensor.values<float>();
  require(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }), "{}: not finite",
          what);
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  return sum;
}

std::span<const float> part(const Tensor& tensor, std::int64_t index) {
  const std::size_t size = std::size_t(tensor.elements() / tensor.shape()[0]);
  return tensor.values<float>().subspan(std::size_t(index) * size, size);
}

double decibels(double mean_square) {
  return mean_square == 0 ? std::numeric_limits<double>::infinity() : -10 * std::log10(mean_square);
}

// ---- SSIM

constexpr std::int64_t kWindow = 11;

std::array<double, kWindow> gaussian() {
  constexpr double kSigma = 1.5;
  std::array<double, kWindow> weights;
  double sum = 0;
  for (std::int64_t i = 0; i < kWindow; ++i) {
    const double x = double(i - kWindow / 2);
    sum += weights[std::size_t(i)] = std::exp(-x * x / (2 * kSigma * kSigma));
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

struct Plane {
  std::int64_t height, width;
  std::vector<double> values;
};

// Gaussian mean around every place whose window lies inside.
Plane blurred(const Plane& plane) {
  static const auto weights = gaussian();
  const std::int64_t height = plane.height - kWindow + 1, width = plane.width - kWindow + 1;
  std::vector<double> across(std::size_t(plane.height * width));
  for (std::int64_t y = 0; y < plane.height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      double sum = 0;
      for (std::int64_t i = 0; i < kWindow; ++i)
        sum += weights[std::size_t(i)] * plane.values[std::size_t(y * plane.width + x + i)];
      across[std::size_t(y * width + x)] = sum;
    }
  Plane result{height, width, std::vector<double>(std::size_t(height * width))};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      double sum = 0;
      for (std::int64_t i = 0; i < kWindow; ++i)
        sum += weights[std::size_t(i)] * across[std::size_t((y + i) * width + x)];
      result.values[std::size_t(y * width + x)] = sum;
    }
  return result;
}

Plane product(const Plane& a, const Plane& b) {
  Plane result = a;
  for (std::size_t i = 0; i < result.values.size(); ++i) result.values[i] *= b.values[i];
  return result;
}

double ssim_of_planes(const Plane& a, const Plane& b) {
  constexpr double kC1 = 0.01 * 0.01, kC2 = 0.03 * 0.03;
  const Plane mean_a = blurred(a), mean_b = blurred(b), aa = blurred(product(a, a)),
              bb = blurred(product(b, b)), ab = blurred(product(a, b));
  double sum = 0;
  for (std::size_t i = 0; i < mean_a.values.size(); ++i) {
    const double ma = mean_a.values[i], mb = mean_b.values[i];
    const double variances = aa.values[i] - ma * ma + bb.values[i] - mb * mb,
                 covariance = ab.values[i] - ma * mb;
    sum += (2 * ma * mb + kC1) * (2 * covariance + kC2) / ((ma * ma + mb * mb + kC1) * (variances + kC2));
  }
  return sum / double(mean_a.values.size());
}

Plane colour_of(std::span<const float> frame, std::int64_t height, std::int64_t width, std::int64_t colour) {
  Plane plane{height, width, std::vector<double>(std::size_t(height * width))};
  for (std::size_t i = 0; i < plane.values.size(); ++i)
    plane.values[i] = frame[i * std::size_t(kColours) + std::size_t(colour)];
  return plane;
}

double ssim_of_frames(std::span<const float> a, std::span<const float> b, std::int64_t height,
                      std::int64_t width) {
  double sum = 0;
  for (std::int64_t colour = 0; colour < kColours; ++colour)
    sum += ssim_of_planes(colour_of(a, height, width, colour), colour_of(b, height, width, colour));
  return sum / double(kColours);
}

// ---- spectra

constexpr std::size_t kSpectrum = 1024;

// In place; the size is a power of two.
void fourier_transform(std::span<std::complex<double>> x) {
  const std::size_t n = x.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n / 2;
    for (; j & bit; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (std::size_t length = 2; length <= n; length *= 2)
    for (std::size_t k = 0; k < length / 2; ++k) {
      const auto turn = std::polar(1.0, -2 * std::numbers::pi * double(k) / double(length));
      for (std::size_t i = k; i < n; i += length) {
        const auto even = x[i], odd = x[i + length / 2] * turn;
        x[i] = even + odd;
        x[i + length / 2] = even - odd;
      }
    }
}

// Power of every window and frequency; a rest shorter than a window is padded with silence.
std::vector<double> spectra(std::span<const float> samples) {
  std::vector<double> powers;
  std::vector<std::complex<double>> window(kSpectrum);
  for (std::size_t start = 0; start < samples.size(); start += kSpectrum / 2) {
    for (std::size_t i = 0; i < kSpectrum; ++i) {
      const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * double(i) / double(kSpectrum));
      window[i] = start + i < samples.size() ? hann * samples[start + i] : 0;
    }
    fourier_transform(window);
    for (std::size_t k = 0; k <= kSpectrum / 2; ++k) powers.push_back(std::norm(window[k]));
  }
  return powers;
}

double spectral_distance(const Tensor& a, const Tensor& b) {
  constexpr double kHeard = 1e-6, kFloor = 1e-8;  // 60 and 80 dB below the loudest bin
  double sum = 0;
  std::size_t count = 0;
  for (std::int64_t channel = 0; channel < a.shape()[0]; ++channel) {
    const auto of_a = spectra(part(a, channel)), of_b = spectra(part(b, channel));
    const double loudest = *std::ranges::max_element(of_a);
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      if (std::max(of_a[i], of_b[i]) <= kHeard * loudest) continue;
      const double apart =
          10 * std::log10(std::max(of_a[i], kFloor * loudest) / std::max(of_b[i], kFloor * loudest));
      sum += apart * apart;
      ++count;
    }
  }
  return count == 0 ? 0 : std::sqrt(sum / double(count));
}

}  // namespace

Media read_media(const std::string& path) {
  const Hdf5Reader file(path);
  Media media{file.string_attribute("/", "decoder"), file.read("frames"), file.read("sound")};
  require(media.frames.dtype() == DType::fp32 && media.frames.shape().size() == 4 &&
              media.frames.cols() == kColours,
          "{}: frames are {} {}, expected fp32 (frames, height, width, 3)", path,
          name_of(media.frames.dtype()), to_string(media.frames.shape()));
  require(media.sound.dtype() == DType::fp32 && media.sound.shape().size() == 2,
          "{}: sound is {} {}, expected fp32 (channels, samples)", path, name_of(media.sound.dtype()),
          to_string(media.sound.shape()));
  return media;
}

void write_media(const std::string& path, const Media& media) {
  Hdf5Writer file(path, 1);
  file.attribute("/", "decoder", media.decoder);
  file.write("frames", media.frames);
  file.write("sound", media.sound);
  file.close();
}

MediaComparison compare_media(const Media& expected, const Media& actual) {
  require(expected.decoder == actual.decoder, "media: decoded by '{}' and by '{}'", expected.decoder,
          actual.decoder);
  for (const auto& [what, a, b] : {std::tuple("frames", expected.frames, actual.frames),
                                   std::tuple("sound", expected.sound, actual.sound)}) {
    require(a.shape() == b.shape(), "media: {} are {} and {}", what, to_string(a.shape()),
            to_string(b.shape()));
    require(a.elements() > 0, "media: no {}", what);
    require_finite(fmt::format("media: {}", what), a);
    require_finite(fmt::format("media: {}", what), b);
  }
  const Tensor &a = expected.frames, &b = actual.frames;
  const std::int64_t frames = a.shape()[0], height = a.shape()[1], width = a.shape()[2];
  require(height >= kWindow && width >= kWindow, "media: frames of {} x {}, a window of SSIM is {} x {}",
          height, width, kWindow, kWindow);
  MediaComparison result;
  result.decoder = expected.decoder;

  const double elements = double(height * width * kColours);
  const auto count = static_cast<std::size_t>(frames);
  std::vector<double> distances(count), changes(count - 1);
  result.ssim_of_frame.resize(count);
  parallel_for(0, frames, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t f = first; f < last; ++f) {
      const auto from = part(a, f), to = part(b, f);
      distances[std::size_t(f)] = squared_distance(from, to);
      result.ssim_of_frame[std::size_t(f)] = ssim_of_frames(from, to, height, width);
      if (f == frames - 1) continue;
      const auto from_next = part(a, f + 1), to_next = part(b, f + 1);
      double sum = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const double apart = (double(from_next[i]) - from[i]) - (double(to_next[i]) - to[i]);
        sum += apart * apart;
      }
      changes[std::size_t(f)] = sum;
    }
  });
  double all = 0;
  for (const double distance : distances) {
    result.psnr_db_of_frame.push_back(decibels(distance / elements));
    all += distance;
  }
  result.psnr_db = decibels(all / (elements * double(frames)));
  for (const double ssim : result.ssim_of_frame) result.ssim += ssim / double(frames);
  double changed = 0;
  for (const double change : changes) {
    result.temporal_rmse_of_frame.push_back(std::sqrt(change / elements));
    changed += change;
  }
  if (!changes.empty()) result.temporal_rmse = std::sqrt(changed / (elements * double(changes.size())));

  const auto sound = expected.sound.values<float>(), other = actual.sound.values<float>();
  const std::vector<float> silence(sound.size());
  const double energy = squared_distance(sound, silence), error = squared_distance(sound, other);
  result.audio_relative_l2 = error == 0 ? 0 : std::sqrt(error / energy);  // infinite against silence
  result.spectral_distance_db = spectral_distance(expected.sound, actual.sound);
  return result;
}

std::vector<BoundVerdict> judge(const MediaBounds& bounds, const MediaComparison& c) {
  return {{"psnr_db", c.psnr_db, bounds.psnr_db, c.psnr_db >= bounds.psnr_db},
          {"ssim", c.ssim, bounds.ssim, c.ssim >= bounds.ssim},
          {"temporal_rmse", c.temporal_rmse, bounds.temporal_rmse, c.temporal_rmse <= bounds.temporal_rmse},
          {"audio_relative_l2", c.audio_relative_l2, bounds.audio_relative_l2,
           c.audio_relative_l2 <= bounds.audio_relative_l2}};
}

nlohmann::ordered_json to_json(const MediaComparison& c, const std::vector<BoundVerdict>& verdicts) {
  using Json = nlohmann::ordered_json;
  // JSON has no infinity: the same bytes have no noise at all.
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json("inf"); };
  const auto numbers = [&](const std::vector<double>& values) {
    Json list = Json::array();
    for (const double value : values) list.push_back(number(value));
    return list;
  };
  Json json = {{"schema", "h3.media_comparison.v1"}, {"decoder", c.decoder}};
  for (const BoundVerdict& verdict : verdicts)
    json["metrics"][verdict.metric] = {
        {"measured", number(verdict.measured)}, {"bound", verdict.limit}, {"accepted", verdict.accepted}};
  json["spectral_distance_db"] = number(c.spectral_distance_db);
  json["psnr_db_of_frame"] = numbers(c.psnr_db_of_frame);
  json["ssim_of_frame"] = numbers(c.ssim_of_frame);
  json["temporal_rmse_of_frame"] = numbers(c.temporal_rmse_of_frame);
  return json;
}

}  // namespace h3
