#include "harness/power_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace h3 {
namespace {

constexpr double kLeft = 210, kRight = 860, kTop = 92, kLine = 15;
constexpr double kSmallest = 1e-3, kLargest = 10;  // of the axis

struct Mark {
  const char* fault;
  const char* label;
  const char* colour;
};
constexpr Mark kMarks[] = {
    {"random", "noise, scaling, shift, zeros", "#1f4e9c"},
    {"rows_permuted", "permuted rows", "#7a7a7a"},
    {"one_modality", "one modality", "#2e8b57"},
    {"one_head", "one head", "#c77700"},
    {"one_row", "one row", "#b22222"},
};

double x_of(double size) {
  const double at = std::clamp(size, kSmallest, kLargest);
  return kLeft + (kRight - kLeft) * std::log10(at / kSmallest) / std::log10(kLargest / kSmallest);
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

}  // namespace

std::string to_svg(const std::vector<TensorFloors>& tensors, const std::string& title) {
  const double bottom = kTop + kLine * double(tensors.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      bottom + 30);
  svg += fmt::format("<text x=\"20\" y=\"24\" font-size=\"15\">{}</text>\n", title);
  svg +=
      text(20, 42, "start",
           "Smallest fault that is rejected, as a fraction of what is spoiled. Right of 1 a bound is blind.");
  double x = 20;
  for (const Mark& mark : kMarks) {
    svg += fmt::format("<circle cx=\"{:.0f}\" cy=\"60\" r=\"4\" fill=\"{}\"/>\n", x + 4, mark.colour);
    svg += text(x + 13, 64, "start", mark.label);
    x += 40 + 6.2 * double(std::string_view(mark.label).size());
  }
  for (const double tick : {1e-3, 1e-2, 1e-1, 1.0, 10.0}) {
    svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" stroke=\"{3}\"/>\n",
                       x_of(tick), kTop - 6, bottom, tick == 1.0 ? "#b22222" : "#dddddd");
    svg += text(x_of(tick), bottom + 16, "middle", fmt::format("{:g}", tick));
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const TensorFloors& tensor = tensors[t];
    const double y = kTop + kLine * double(t) + 8;
    std::string name = tensor.name;
    if (name.starts_with("transformer_blocks.0.")) name = name.substr(21);
    svg += text(kLeft - 10, y + 4, "end", (tensor.backward ? "d " : "") + name);
    if (tensor.provider_bytes)
      svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6\" height=\"6\" fill=\"#1f4e9c\"/>\n",
                         kLeft - 5, y - 3);
    for (const Mark& mark : kMarks) {
      const auto floor = std::ranges::find(tensor.floors, mark.fault, &DetectionFloor::fault);
      if (floor != tensor.floors.end())
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
                           x_of(floor->typical), y, mark.colour);
    }
  }
  svg += text(kLeft, bottom + 28, "start",
              "square: also held to the provider's bytes, one changed bit is rejected");
  return svg + "</svg>\n";
}

}  // namespace h3
