#include "harness/power/power_picture.h"

#include <algorithm>
#include <cmath>

namespace h3 {
namespace {

constexpr double kLine = 15;
constexpr int kSmallest = -3, kLargest = 1;  // powers of ten of the axis

struct Mark {
  const char* fault;
  const char* label;
  int colour;  // of the theme's series; 5: that of a limit
};
constexpr Mark kMarks[] = {
    {"random", "noise, scaling, shift, zeros", 0},
    {"rows_permuted", "permuted rows", 4},
    {"one_modality", "one modality", 1},
    {"one_head", "one head", 2},
    {"one_row", "one row", 5},
};

const char* colour_of(const Mark& mark, const Theme& theme) {
  return mark.colour == 5 ? theme.limit : theme.series[std::size_t(mark.colour)];
}

std::string short_name(const TensorFloors& tensor) {
  constexpr std::string_view kBlock = "transformer_blocks.0.";
  const std::string name = tensor.name.starts_with(kBlock) ? tensor.name.substr(kBlock.size()) : tensor.name;
  return (tensor.backward ? "d " : "") + name;
}

}  // namespace

std::string to_svg(const std::vector<TensorFloors>& tensors, const std::string& title, const Style& style) {
  const Theme& theme = style.theme;
  const double left = style.narrow() ? 142 : 210, right = style.width - 24,
               legend_lines = style.narrow() ? 3 : 1;
  const double top = 70 + 18 * legend_lines, bottom = top + kLine * double(tensors.size());
  const auto x_of = [&](double size) {
    const double at = std::clamp(std::log10(std::max(size, 1e-300)), double(kSmallest), double(kLargest));
    return left + (right - left) * (at - kSmallest) / (kLargest - kSmallest);
  };
  Svg svg(style, bottom + 42, title,
          "One line a tensor; a mark is the smallest fault of its kind that is rejected");
  svg.text(16, 24, "start", title, "", 15, true);
  svg.text(
      16, 42, "start",
      style.narrow()
          ? "Smallest rejected fault; right of 1: blind"
          : "Smallest fault that is rejected, as a fraction of what is spoiled. Right of 1 a bound is blind.",
      theme.muted);
  double x = 16, y = 60;
  for (const Mark& mark : kMarks) {
    const double width = 34 + 6.2 * double(std::string_view(mark.label).size());
    if (x + width > style.width) x = 16, y += 18;
    svg.circle(x + 4, y, 4, colour_of(mark, theme));
    svg.text(x + 13, y + 4, "start", mark.label);
    x += width;
  }
  for (int power = kSmallest; power <= kLargest; ++power) {
    const double at = x_of(std::pow(10, power));
    svg.line(at, top - 6, at, bottom, power == 0 ? theme.limit : theme.grid);
    svg.text(at, bottom + 16, "middle", power_of_ten(power), theme.muted);
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const double line = top + kLine * double(t) + 8;
    svg.text(left - 10, line + 4, "end", short_name(tensors[t]));
    if (tensors[t].provider_bytes) svg.rect(left - 6, line - 3, 6, 6, theme.series[0]);
    for (const Mark& mark : kMarks) {
      const auto floor = std::ranges::find(tensors[t].floors, mark.fault, &DetectionFloor::fault);
      if (floor != tensors[t].floors.end())
        svg.circle(x_of(floor->typical), line, 3.5, colour_of(mark, theme));
    }
  }
  svg.text(16, bottom + 34, "start",
           style.narrow() ? "square: one changed bit is rejected"
                          : "square: also held to the provider's bytes, one changed bit is rejected",
           theme.muted);
  return svg.code();
}

}  // namespace h3
