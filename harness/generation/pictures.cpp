#include "harness/generation/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "model/atomic_file.h"
#include "model/error.h"

namespace h3 {
namespace {

// ---- PNG

std::uint32_t crc32_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries;
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
      entries[i] = value;
    }
    return entries;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = table[(crc ^ std::uint8_t(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t adler32_of(std::string_view bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + std::uint8_t(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string big_endian(std::uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(std::uint32_t(data.size())) + type + data + big_endian(crc32_of(type + data));
}

// A zlib stream of stored blocks.
std::string stored(const std::string& bytes) {
  constexpr std::size_t kMost = 65535;
  std::string stream = "\x78\x01";
  for (std::size_t at = 0; at < bytes.size(); at += kMost) {
    const std::string block = bytes.substr(at, kMost);
    const auto size = std::uint16_t(block.size()), other = std::uint16_t(~size);
    stream += at + kMost >= bytes.size() ? '\1' : '\0';
    for (const std::uint16_t word : {size, other}) stream += {char(word), char(word >> 8)};
    stream += block;
  }
  return stream + big_endian(adler32_of(bytes));
}

char byte_of(float value) { return char(std::lround(std::clamp(value, 0.0f, 1.0f) * 255)); }

// ---- SVG

constexpr double kLeft = 70, kHeight = 110, kPanel = 150, kTop = 40;

std::string number(double value) { return fmt::format("{:.4g}", value); }

void draw_panel(Svg& svg, const Style& style, const Curve& curve, double top, bool logarithmic) {
  const double width = style.width - kLeft - 20;
  const auto shown = [&](double value) { return std::isfinite(value) && (!logarithmic || value > 0); };
  const auto scaled = [&](double value) { return logarithmic ? std::log10(value) : value; };
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : curve.values)
    if (shown(value)) low = std::min(low, value), high = std::max(high, value);
  svg.text(kLeft, top - 6, "start", curve.name);
  svg.frame(kLeft, top, width, kHeight, style.theme.grid);
  if (low > high) return svg.text(kLeft + width / 2, top + kHeight / 2, "middle", "the same everywhere");
  svg.text(kLeft - 6, top + 10, "end", number(high), style.theme.muted);
  svg.text(kLeft - 6, top + kHeight, "end", number(low), style.theme.muted);
  if (shown(curve.limit)) low = std::min(low, curve.limit), high = std::max(high, curve.limit);
  const double bottom = scaled(low), range = scaled(high) > bottom ? scaled(high) - bottom : 1;
  const auto y = [&](double value) { return top + kHeight * (1 - (scaled(value) - bottom) / range); };
  if (shown(curve.limit)) {
    svg.line(kLeft, y(curve.limit), kLeft + width, y(curve.limit), style.theme.limit, true);
    svg.text(kLeft + width - 4, y(curve.limit) - 3, "end", "bound " + number(curve.limit));
  }
  const double step = curve.values.size() > 1 ? width / double(curve.values.size() - 1) : 0;
  for (std::size_t i = 0; i < curve.values.size(); ++i)
    if (shown(curve.values[i]))
      svg.circle(kLeft + step * double(i), y(curve.values[i]), 2, style.theme.series[0]);
}

}  // namespace

std::string png_of(const Tensor& image) {
  require(image.dtype() == DType::fp32 && image.shape().size() == 3 && image.cols() == 3,
          "png: {} {}, expected fp32 (height, width, 3)", name_of(image.dtype()), to_string(image.shape()));
  const std::int64_t height = image.shape()[0], row = image.shape()[1] * 3;
  std::string bytes;
  for (std::int64_t y = 0; y < height; ++y) {
    bytes += '\0';  // no filter
    for (std::int64_t i = 0; i < row; ++i) bytes += byte_of(image.data<float>()[y * row + i]);
  }
  const std::string header = big_endian(std::uint32_t(image.shape()[1])) + big_endian(std::uint32_t(height)) +
                             std::string("\x08\x02\0\0\0", 5);  // 8 bits, RGB
  return std::string("\x89PNG\r\n\x1a\n") + chunk("IHDR", header) + chunk("IDAT", stored(bytes)) +
         chunk("IEND", "");
}

Tensor frame_strip(const Media& expected, const Media& actual, std::int64_t most) {
  const Shape& shape = expected.frames.shape();
  require(shape == actual.frames.shape() && shape.size() == 4, "strip: frames are {} and {}",
          to_string(shape), to_string(actual.frames.shape()));
  const std::int64_t frames = shape[0], height = shape[1], width = shape[2], columns = std::min(most, frames);
  Tensor strip(DType::fp32, {3 * height, columns * width, 3});
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t frame = columns == 1 ? 0 : column * (frames - 1) / (columns - 1);
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t i = 0; i < width * 3; ++i) {
        const std::int64_t from = (frame * height + y) * width * 3 + i;
        const float a = expected.frames.data<float>()[from], b = actual.frames.data<float>()[from];
        const float parts[] = {a, b, 0.5f + 4 * (b - a)};  // 8 x, of which half the range is each way
        for (std::int64_t part = 0; part < 3; ++part)
          strip.data<float>()[((part * height + y) * columns + column) * width * 3 + i] = parts[part];
      }
  }
  return strip;
}

std::string svg_of(const std::string& title, const std::string& axis, const std::vector<Curve>& curves,
                   bool logarithmic, const Style& style) {
  const double height = kTop + kPanel * double(curves.size()) + 20;
  Svg svg(style, height, title);
  svg.text(kLeft, 16, "start", title);
  for (std::size_t i = 0; i < curves.size(); ++i)
    draw_panel(svg, style, curves[i], kTop + kPanel * double(i), logarithmic);
  svg.text(style.width / 2, height - 8, "middle", axis);
  return svg.code();
}

void write_pictures(const std::string& folder, const MediaBounds& bounds, const Media& expected,
                    const Media& actual, const MediaComparison& comparison, const DriftReport& drift) {
  std::filesystem::create_directories(folder);
  write_file(folder + "/frames.png", png_of(frame_strip(expected, actual)));
  write_file(folder + "/frames.svg",
             svg_of("Decoded by: " + comparison.decoder, "frame",
                    {{"PSNR, dB", comparison.psnr_db_of_frame, bounds.psnr_db},
                     {"SSIM", comparison.ssim_of_frame, bounds.ssim},
                     {"temporal RMSE", comparison.temporal_rmse_of_frame, bounds.temporal_rmse}},
                    false));
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<Curve> curves = {{"video velocity", {}, kNone},
                               {"audio velocity", {}, kNone},
                               {"video rows", {}, kNone},
                               {"audio rows", {}, kNone}};
  for (const StepDistance& step : drift.steps) {
    const double distances[] = {step.video_velocity, step.audio_velocity, step.video_rows, step.audio_rows};
    for (std::size_t i = 0; i < curves.size(); ++i) curves[i].values.push_back(distances[i]);
  }
  write_file(folder + "/steps.svg",
             svg_of("Relative L2 distance after each evaluation", "step", curves, true));
}

}  // namespace h3
