#include "harness/page/parts.h"

#include <algorithm>
#include <cmath>

namespace h3::page {

bool Run::closed() const {
  return std::ranges::all_of(inputs.gates, &GateRun::closed) &&
         std::ranges::all_of(reports, &TensorReport::accepted);
}

std::string scientific(double value) {
  return !std::isfinite(value) ? "n/a" : value == 0 ? "0" : fmt::format("{:.3e}", value);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "n/a";
  return share > 0 && share < 0.005 ? "< 1 %" : fmt::format("{:.0f} %", 100 * share);
}

std::string share_text(double share) {
  return share >= 1e-4 ? fmt::format("{:.2f} %", 100 * share) : fmt::format("{:.1f} in 10^6", 1e6 * share);
}

std::string seconds(double value) { return fmt::format("{:.{}f} s", value, value < 100 ? 2 : 0); }

Markup number_cell(const char* at, const std::string& shown) {
  return element("td", {{"data-at", at}, {"class", "n"}}, shown);
}

Markup Table::code() const {
  Markup heads;
  for (const std::string& column : columns) heads << element("th", {{"scope", "col"}}, column);
  const Markup table =
      element("table", {{"class", kind}},
              element("caption", caption) + element("thead", element("tr", heads)) + element("tbody", rows));
  return element("div", {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", caption}},
                 table);
}

Markup row(const std::string& from, const Markup& cells) {
  return element("tr", {{"data-from", from}}, cells);
}
Markup cell(std::string_view text, const char* kind) { return element("td", {{"class", kind}}, text); }
Markup head(std::string_view text) { return element("th", {{"scope", "row"}}, text); }

Markup details(const std::string& summary, const Markup& inside, bool open) {
  return element("details", {{"open", open ? "open" : ""}}, element("summary", summary) + inside);
}

Markup section(const char* id, const std::string& title, const std::string& lead, const Markup& inside) {
  if (inside.empty()) return {};
  Markup code = element("h2", {{"id", std::string(id) + "-title"}}, title);
  if (!lead.empty()) code << element("p", {{"class", "lead"}}, lead);
  return element("section", {{"id", id}, {"aria-labelledby", std::string(id) + "-title"}}, code + inside);
}

Markup verdict(bool good, std::string_view text) {
  return element("span", {{"class", good ? "mark good" : "mark bad"}},
                 element("span", {{"aria-hidden", "true"}}, good ? "✓" : "✗") + words(" ") + words(text));
}

namespace {

Markup bar_cell(const Markup& inside) {
  return element(
      "td", {{"class", "barcell"}},
      element("svg", {{"class", "used"}, {"width", "100%"}, {"height", "16"}, {"aria-hidden", "true"}},
              inside));
}

}  // namespace

Markup share_bar(double share) {
  if (!std::isfinite(share)) return cell("");
  const std::string width = fmt::format("{:.1f}%", 100 * std::clamp(share, 0.004, 1.0));
  return bar_cell(element("rect", {{"class", "bar"}, {"y", "4"}, {"height", "8"}, {"width", width}}));
}

Markup used_bar(const Distance& distance) {
  constexpr double kRight = 1.25;  // the bound is at four fifths of the cell
  const auto at = [](double used) {
    return fmt::format("{:.1f}%", 100 * std::clamp(used / kRight, 0.0, 1.0));
  };
  Markup bar;
  const double used = distance.used();
  if (std::isfinite(used))
    bar << element("rect", {{"class", distance.blind()      ? "bar blind"
                                      : distance.exceeded() ? "bar over"
                                                            : "bar"},
                            {"y", "4"},
                            {"height", "8"},
                            {"width", at(std::max(used, 0.004))}});
  if (distance.provider) {
    const double low = distance.provider->first / distance.bound,
                 high = distance.provider->second / distance.bound;
    bar << element(
        "rect",
        {{"class", "band"},
         {"x", at(low)},
         {"y", "1"},
         {"height", "14"},
         {"width", fmt::format("{:.1f}%", std::max(0.6, 100 * (std::min(high, kRight) - low) / kRight))}});
  }
  bar << element("line", {{"class", "limit"}, {"x1", at(1)}, {"x2", at(1)}, {"y1", "0"}, {"y2", "16"}});
  return bar_cell(bar);
}

Markup picture(std::vector<File>& files, const std::string& name, const std::string& alt,
               const std::function<std::string(const Style&)>& draw) {
  constexpr double kWide = 1160, kNarrow = 358;
  const auto file = [&](const char* suffix, const Theme& theme, double width) {
    files.push_back({name + suffix + ".svg", draw({theme, width})});
    return files.back().name;
  };
  const auto source = [](const std::string& from, const char* media) {
    return element("source", {{"media", media}, {"srcset", from}});
  };
  const std::string wide = file("", kLight, kWide);
  return element("picture", source(file("-narrow-dark", kDark, kNarrow),
                                   "(max-width: 700px) and (prefers-color-scheme: dark)") +
                                source(file("-narrow", kLight, kNarrow), "(max-width: 700px)") +
                                source(file("-dark", kDark, kWide), "(prefers-color-scheme: dark)") +
                                element("img", {{"src", wide}, {"alt", alt}}));
}

}  // namespace h3::page
