#include "harness/report/svg.h"

namespace h3 {

Svg::Svg(const Style& style, double height, const std::string& title, const std::string& description)
    : root_({{"xmlns", "http://www.w3.org/2000/svg"},
             {"width", style.width},
             {"height", height},
             {"viewBox", fmt::format("0 0 {:.0f} {:.0f}", style.width, height)},
             {"role", "img"},
             {"font-family", "system-ui, 'Segoe UI', Roboto, sans-serif"},
             {"font-size", "11"}}),
      ink_(style.theme.ink) {
  inside_ << element("title", title);
  if (!description.empty()) inside_ << element("desc", description);
  rect(0, 0, style.width, height, style.theme.paper);
}

void Svg::text(double x, double y, const char* anchor, const std::string& text, const char* colour,
               double size, bool bold) {
  inside_ << element("text",
                     {{"x", x},
                      {"y", y},
                      {"text-anchor", std::string_view(anchor) == "start" ? "" : anchor},
                      {"fill", *colour ? colour : ink_},
                      {"font-size", size == 11 ? "" : fmt::format("{:g}", size)},
                      {"font-weight", bold ? "600" : ""}},
                     text);
}

void Svg::line(double x1, double y1, double x2, double y2, const char* colour, bool dashed, double width) {
  inside_ << element("line", {{"x1", x1},
                              {"y1", y1},
                              {"x2", x2},
                              {"y2", y2},
                              {"stroke", colour},
                              {"stroke-width", width == 1 ? "" : fmt::format("{:g}", width)},
                              {"stroke-dasharray", dashed ? "5 3" : ""}});
}

void Svg::rect(double x, double y, double width, double height, const char* fill, double opacity) {
  inside_ << element("rect", {{"x", x},
                              {"y", y},
                              {"width", width},
                              {"height", height},
                              {"fill", fill},
                              {"fill-opacity", opacity == 1 ? "" : fmt::format("{:g}", opacity)}});
}

void Svg::frame(double x, double y, double width, double height, const char* colour) {
  inside_ << element(
      "rect",
      {{"x", x}, {"y", y}, {"width", width}, {"height", height}, {"fill", "none"}, {"stroke", colour}});
}

void Svg::circle(double x, double y, double radius, const char* fill) {
  inside_ << element("circle", {{"cx", x}, {"cy", y}, {"r", radius}, {"fill", fill}});
}

void Svg::path(const std::string& d, const char* stroke, const char* fill, double opacity) {
  inside_ << element("path", {{"d", d},
                              {"stroke", stroke},
                              {"fill", fill},
                              {"fill-opacity", opacity == 1 ? "" : fmt::format("{:g}", opacity)}});
}

void Svg::line_through(const std::vector<std::pair<double, double>>& points, const char* colour,
                       double width) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{:.1f},{:.1f} ", x, y);
  inside_ << element(
      "polyline",
      {{"points", list}, {"fill", "none"}, {"stroke", colour}, {"stroke-width", fmt::format("{:g}", width)}});
}

std::string Svg::code() const { return element("svg", root_, inside_).code + "\n"; }

std::string power_of_ten(int exponent) {
  return exponent == 0 ? "1" : exponent == 1 ? "10" : fmt::format("1e{}", exponent);
}

}  // namespace h3
