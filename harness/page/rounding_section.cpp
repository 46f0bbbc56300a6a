// Rounding: histograms in steps of the output type, runs of one row beside each other; and the growth of
// error inside a block.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

struct Histogram {
  std::size_t source = 0;
  std::string row, dtype, engine, inputs, worst;
  std::int64_t finite = 0;
  double correctly_rounded = 0;
  std::map<std::int64_t, std::pair<std::string, std::int64_t>> bins;  // by its lower end: name, results
};

Histogram histogram_of(const Json& json, std::size_t source) {
  Histogram one{source,
                json.at("row"),
                json.at("dtype"),
                json.at("engine"),
                json.at("inputs"),
                "",
                json.at("finite"),
                json.at("share_correctly_rounded"),
                {}};
  for (const auto& [name, results] : json.at("histogram").items())
    one.bins[std::atoll(name.c_str())] = {name, results.get<std::int64_t>()};
  if (const Json& worst = json.at("worst"); !worst.is_null())
    one.worst = fmt::format("{} ulp at {}: expected {}, got {}", worst.at("ulp").get<std::int64_t>(),
                            worst.at("inputs").get<std::string>(), worst.at("expected").get<std::string>(),
                            worst.at("got").get<std::string>());
  return one;
}

std::string draw(const std::string& title, const std::vector<Histogram>& runs, const Style& style) {
  std::map<std::int64_t, std::string> bins;
  for (const Histogram& run : runs)
    for (const auto& [lower, bin] : run.bins) bins[lower] = bin.first;
  const double bar = 14, line = bar * double(runs.size()) + 8, left = 100, top = 58, room = 92;
  const double smallest = -8;  // power of ten of the axis' left end
  const double bottom = top + line * double(bins.size());
  Svg svg(style, bottom + 34, title, "Share of the results by their distance in ulp, on a logarithmic axis");
  const Theme& theme = style.theme;
  svg.text(12, 20, "start", title, "", 13, true);
  double at = 12;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    svg.rect(at, 33, 10, 10, theme.series[i % theme.series.size()]);
    svg.text(at + 15, 42, "start", runs[i].engine);
    at += 34 + 6.6 * double(runs[i].engine.size());
  }
  const double width = style.width - left - room;
  const auto x = [&](double share) {
    return width * std::clamp(1 - std::log10(share) / smallest, 0.004, 1.0);
  };
  for (int power = int(smallest); power <= 0; power += 2) {
    svg.line(left + x(std::pow(10, power)), top - 4, left + x(std::pow(10, power)), bottom, theme.grid);
    svg.text(left + x(std::pow(10, power)), bottom + 14, "middle", power_of_ten(power), theme.muted, 10);
  }
  svg.text(left + width, bottom + 29, "end", "share of the finite results", theme.muted);
  double y = top;
  for (const auto& [lower, name] : bins) {
    svg.text(left - 8, y + line / 2, "end", name + " ulp");
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto bin = runs[i].bins.find(lower);
      if (bin == runs[i].bins.end() || runs[i].finite == 0) continue;
      const double share = double(bin->second.second) / double(runs[i].finite), down = y + bar * double(i);
      svg.rect(left, down, x(share), bar - 3, theme.series[i % theme.series.size()]);
      svg.text(left + x(share) + 5, down + 10, "start", share_text(share), "", 10.5);
    }
    y += line;
  }
  return svg.code();
}

Markup histogram_table(const std::vector<Histogram>& runs) {
  Markup code;
  for (const Histogram& run : runs) {
    Table table{.caption = fmt::format("{} {}, engine {}: {} finite results", run.row, run.dtype, run.engine,
                                       grouped(run.finite)),
                .columns = {"ulp", "results"}};
    for (const auto& [lower, bin] : run.bins)
      table.rows << row(fmt::format("{}/histogram", run.source),
                        head(bin.first) + number_cell(bin.first.c_str(), grouped(bin.second)));
    code << table.code();
    if (!run.worst.empty()) code << element("p", {{"class", "note"}}, "Worst: " + run.worst);
  }
  return code;
}

Markup histograms(const Run& run, std::vector<File>& files) {
  std::map<std::string, std::vector<Histogram>> rows;
  for (const std::size_t i : run.inputs.of("h3.ulp.v1")) {
    const Histogram one =
        reading(run.inputs.sources[i], [&](const Json& json) { return histogram_of(json, i); });
    rows[one.row + " " + one.dtype].push_back(one);
  }
  Markup figures;
  int count = 0;
  for (const auto& [name, runs] : rows) {
    const std::string title =
        fmt::format("{}: {} correctly rounded", name, share_text(runs.front().correctly_rounded));
    figures << element(
        "figure", picture(files, fmt::format("ulp-{}", ++count), "Histogram of " + title,
                          [&, &engines = runs](const Style& style) {
                            return draw(title, engines, {style.theme, style.narrow() ? style.width : 520});
                          }) +
                      element("figcaption", runs.front().inputs) +
                      details("the numbers", histogram_table(runs)));
  }
  return figures.empty() ? figures : element("div", {{"class", "figures"}}, figures);
}

Markup growth(const Json& json, std::size_t source) {
  const std::string subject = fmt::format(
      "{}, {} (S = {}), {}", json.at("graph").get<std::string>(), json.at("layout").get<std::string>(),
      json.at("rows").get<std::int64_t>(), json.at("engine").get<std::string>());
  Table nodes{
      .caption = subject + ": error from node to node",
      .columns = {"node", "error", "", "its worst input", "input's error", "growth", "rms", "largest"},
      .kind = "bars"};
  const auto number = [](const Json& value) { return value.is_null() ? kNone : value.get<double>(); };
  double most = 0;
  for (const Json& node : json.at("nodes")) most = std::max(most, number(node.at("error")));
  for (std::size_t i = 0; i < json.at("nodes").size(); ++i) {
    const Json& node = json["nodes"][i];
    const double error = number(node.at("error")), factor = number(node.at("growth"));
    nodes.rows << row(
        fmt::format("{}/nodes/{}", source, i),
        head(node.at("node").get<std::string>()) + number_cell("error", scientific(error)) +
            share_bar(error / most) +
            cell(node.at("worst_input").is_string() ? node["worst_input"].get<std::string>() : "exact") +
            number_cell("input_error", scientific(number(node.at("input_error")))) +
            (std::isfinite(factor) ? number_cell("growth", fmt::format("{:.2f}", factor)) : cell("–", "n")) +
            number_cell("rms", scientific(number(node.at("rms")))) +
            number_cell("absmax", scientific(number(node.at("absmax")))));
  }
  Table heads{.caption = subject + ": attention head by head, entropy in nats",
              .columns = {"head", "largest logit", "mean entropy", "smallest entropy"}};
  for (std::size_t i = 0; i < json.at("attention").at("heads").size(); ++i) {
    const Json& one = json["attention"]["heads"][i];
    heads.rows << row(
        fmt::format("{}/attention/heads/{}", source, i),
        head(std::to_string(one.at("head").get<int>())) +
            number_cell("largest_logit", fmt::format("{:.3f}", number(one.at("largest_logit")))) +
            number_cell("mean_entropy", fmt::format("{:.3f}", number(one.at("mean_entropy")))) +
            number_cell("min_entropy", fmt::format("{:.3f}", number(one.at("min_entropy")))));
  }
  return element("h3", "Growth inside a block") + nodes.code() +
         details("attention, head by head", heads.code());
}

}  // namespace

Markup rounding_section(const Run& run, std::vector<File>& files) {
  Markup code = beside_provider(run) + histograms(run, files);
  for (const std::size_t i : run.inputs.of("h3.diagnosis.v1"))
    code << reading(run.inputs.sources[i], [&](const Json& json) { return growth(json, i); });
  return section("rounding", "Rounding",
                 "Distance to the golden, rounded once to the output's type, in units in the last place.",
                 code);
}

}  // namespace h3::page
