// Error of the residual stream against depth, with the provider's band: where it grows, and whether the
// provider grows with it.
#include <algorithm>
#include <cmath>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

struct Panel {
  std::string title;
  std::vector<const Distance*> by_block;  // null: not recorded
};

std::vector<Panel> panels_of(const TensorReport& report) {
  std::vector<Panel> panels;
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (const bool isolated : {false, true}) {
      Panel panel{
          fmt::format("{} residual stream, {}", pass == Pass::forward ? "forward," : "gradient of the",
                      isolated ? "isolated" : "chained"),
          {}};
      for (const Reading& one : report.readings) {
        if (one.pass != pass || one.place.part != Place::Part::block || one.name != "residual_mlp") continue;
        const auto& distance = isolated ? one.isolated : one.chained;
        panel.by_block.resize(std::max(panel.by_block.size(), std::size_t(one.place.index) + 1));
        if (distance && distance->error > 0) panel.by_block[std::size_t(one.place.index)] = &*distance;
      }
      if (std::ranges::count_if(panel.by_block, [](const auto* one) { return one != nullptr; }) > 1)
        panels.push_back(std::move(panel));
    }
  return panels;
}

void draw_panel(Svg& svg, const Theme& theme, const Panel& panel, double left, double top, double width,
                double height) {
  double low = 1e300, high = 0;
  const auto take = [&](double value) {
    if (value > 0 && std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  };
  for (const Distance* one : panel.by_block) {
    if (!one) continue;
    take(one->error), take(one->bound);
    if (one->provider) take(one->provider->first), take(one->provider->second);
  }
  const int bottom = int(std::floor(std::log10(low))),
            ceiling = std::max(int(std::ceil(std::log10(high))), bottom + 1);
  const double blocks = double(panel.by_block.size());
  const auto x = [&](std::size_t block) { return left + width * (double(block) + 0.5) / blocks; };
  const auto y = [&](double value) {
    return top + height * (1 - (std::log10(std::max(value, 1e-300)) - bottom) / (ceiling - bottom));
  };
  svg.text(left, top - 10, "start", panel.title, "", 12, true);
  for (int power = bottom; power <= ceiling; ++power) {
    svg.line(left, y(std::pow(10, power)), left + width, y(std::pow(10, power)), theme.grid);
    svg.text(left - 6, y(std::pow(10, power)) + 4, "end", power_of_ten(power), theme.muted);
  }
  std::vector<std::pair<double, double>> error, bound;
  std::string above, below;
  for (std::size_t block = 0; block < panel.by_block.size(); ++block) {
    const Distance* one = panel.by_block[block];
    if (!one) continue;
    if (std::isfinite(one->error)) error.emplace_back(x(block), y(one->error));
    if (std::isfinite(one->bound)) bound.emplace_back(x(block), y(one->bound));
    if (!one->provider) continue;
    above += fmt::format("{}{:.1f} {:.1f} ", above.empty() ? "M" : "L", x(block), y(one->provider->second));
    below = fmt::format("L{:.1f} {:.1f} ", x(block), y(one->provider->first)) + below;
  }
  if (!above.empty()) svg.path(above + below + "Z", theme.series[1], theme.series[1], 0.28);
  svg.line_through(bound, theme.limit, 1.25);
  svg.line_through(error, theme.series[0], 2);
  if (blocks <= 60)
    for (const auto& [at, value] : error) svg.circle(at, value, 2.5, theme.series[0]);
  const std::size_t every = blocks > 20 ? 10 : blocks > 8 ? 2 : 1;
  for (std::size_t block = 0; block < panel.by_block.size(); block += every)
    svg.text(x(block), top + height + 16, "middle", std::to_string(block), theme.muted);
  svg.text(left + width, top + height + 32, "end", "block", theme.muted);
}

std::string draw(const std::string& title, const std::vector<Panel>& panels, const Style& style) {
  const double gap = 62, columns = style.narrow() ? 1 : 2, height = 150, line = height + 80;
  const double width = (style.width - 12 - gap * columns) / columns, top = 72;
  Svg svg(style, top + line * std::ceil(double(panels.size()) / columns) - 26, title,
          "Relative L2 error of every block's output and its gradient, candidate, provider and bound, on "
          "logarithmic axes");
  const Theme& theme = style.theme;
  double at = 12;
  for (const auto& [name, colour] : {std::pair{"candidate", theme.series[0]},
                                     {"provider's ensemble", theme.series[1]},
                                     {"bound", theme.limit}}) {
    svg.rect(at, 14, 14, 5, colour);
    svg.text(at + 20, 20, "start", name);
    at += 36 + 6.4 * double(std::string_view(name).size());
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double column = double(i % std::size_t(columns)), down = std::floor(double(i) / columns);
    draw_panel(svg, theme, panels[i], gap - 8 + column * (width + gap), top + down * line, width, height);
  }
  return svg.code();
}

}  // namespace

Markup depth_section(const Run& run, std::vector<File>& files) {
  Markup code;
  int count = 0;
  for (const TensorReport& report : run.reports) {
    const std::vector<Panel> panels = panels_of(report);
    if (panels.empty()) continue;
    const std::string title = fmt::format("Error against depth, {}, {}", report.subject(), report.engine);
    code << element("figure", picture(files, fmt::format("depth-{}", ++count), title,
                                      [&](const Style& style) { return draw(title, panels, style); }) +
                                  element("figcaption", title + ". The numbers are in the tables above."));
  }
  return section("depth", "Error against depth",
                 "Relative L2 error of what every block hands on, and of its gradient, on logarithmic axes.",
                 code);
}

}  // namespace h3::page
