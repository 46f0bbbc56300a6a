// How block 0's nodes and gradients are rounded, beside how the provider's own are: distances in ulp to the
// golden, on the rows that are recorded of the provider.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

using Bins = std::map<std::int64_t, std::string>;  // by the lower end: name

struct Side {
  double correctly_rounded = 0;
  std::int64_t finite = 0;
  std::map<std::string, std::int64_t> bins;
  std::int64_t worst = -1;  // nothing was finite
  bool operator==(const Side&) const = default;
};

struct Rounded {
  std::string name, from;  // "q_proj", "2/nodes/3/ulp"
  std::int64_t elements = 0;
  Side candidate, provider;
};

Side side_of(const Json& json) {
  const Json& worst = json.at("worst");
  return {json.at("share_correctly_rounded"), json.at("finite"), json.at("histogram"),
          worst.is_null() ? -1 : worst.at("ulp").get<std::int64_t>()};
}

// Of one pass; reports from before this was recorded have none.
std::vector<Rounded> rounded_in(const TensorReport& report, const Json& json, Pass pass) {
  std::vector<Rounded> all;
  for (const Reading& one : report.readings) {
    if (one.pass != pass) continue;
    const Json ulp = json.at(Json::json_pointer(one.from.substr(one.from.find('/')))).value("ulp", Json());
    if (ulp.is_null()) continue;
    all.push_back({one.name, one.from + "/ulp", ulp.at("elements"), side_of(ulp.at("candidate")),
                   side_of(ulp.at("provider"))});
  }
  return all;
}

Bins bins_of(const std::vector<Rounded>& all) {
  Bins bins;
  for (const Rounded& one : all)
    for (const Side& side : {one.candidate, one.provider})
      for (const auto& [name, elements] : side.bins) bins[std::atoll(name.c_str())] = name;
  return bins;
}

// "5-8" -> "8"
std::string upper_end(const std::string& bin) { return bin.substr(bin.find('-') + 1); }

// As wide as its place: across in percent, down in pixels, so that words keep their size.
Markup draw(const Rounded& one, const Bins& bins) {
  constexpr double kTop = 10, kHeight = 78, kDecades = 6, kWidth = 0.8;  // the rest is the axis'
  constexpr std::size_t kLabels = 6;
  const auto percent_of = [](double part) { return fmt::format("{:.2f}%", 100 * part); };
  const auto height = [](double share) {
    return kHeight * std::clamp(1 + std::log10(share) / kDecades, 0.02, 1.0);
  };
  Markup grid, labels, candidates, providers;
  for (const auto& [share, name] : {std::pair{1.0, "100 %"}, {1e-2, "1 %"}, {1e-4, "0.01 %"}}) {
    const double y = kTop + kHeight - height(share);
    grid << element("line", {{"x2", "100%"}, {"y1", y}, {"y2", y}});
    labels << element("text", {{"x", "100%"}, {"y", y + 3}, {"text-anchor", "end"}}, name);
  }
  const double slot = kWidth / double(bins.size());
  const auto elements = [](const Side& side, const std::string& bin) {
    const auto found = side.bins.find(bin);
    return found == side.bins.end() ? 0 : found->second;
  };
  const auto bar = [&](const Side& side, const std::string& bin, double left, const char* kind) {
    if (elements(side, bin) <= 0 || side.finite <= 0) return Markup();
    const double tall = height(double(elements(side, bin)) / double(side.finite));
    return element("rect", {{"class", kind},
                            {"x", percent_of(left)},
                            {"y", kTop + kHeight - tall},
                            {"width", percent_of(0.36 * slot)},
                            {"height", tall}});
  };
  std::size_t number = 0;
  const std::size_t every = (bins.size() + kLabels - 1) / kLabels;
  for (const auto& [lower, bin] : bins) {
    const double left = slot * double(number);
    candidates << bar(one.candidate, bin, left + 0.1 * slot,
                      elements(one.candidate, bin) == elements(one.provider, bin) ? "" : "other");
    providers << bar(one.provider, bin, left + 0.54 * slot, "");
    if (number++ % every == 0)
      labels << element(
          "text",
          {{"x", percent_of(left + 0.5 * slot)}, {"y", kTop + kHeight + 14}, {"text-anchor", "middle"}},
          upper_end(bin));
  }
  return element("svg",
                 {{"class", "steps"},
                  {"width", "100%"},
                  {"height", kTop + kHeight + 18},
                  {"role", "img"},
                  {"aria-label", one.name + ": share of the elements by distance in ulp"}},
                 grid + element("g", {{"class", "candidate"}}, candidates) +
                     element("g", {{"class", "provider"}}, providers) + labels);
}

Markup figures(const std::vector<Rounded>& all, const Bins& bins) {
  Markup code;
  for (const Rounded& one : all) {
    const std::string share = share_text(one.candidate.correctly_rounded);
    code << element(
        "figure", element("figcaption",
                          element("strong", one.name) + element("br", {}) +
                              (one.candidate == one.provider
                                   ? words(share + ", as the provider")
                                   : words(share + ", ") +
                                         element("span", {{"class", "key other"}},
                                                 "provider " + share_text(one.provider.correctly_rounded)))) +
                      draw(one, bins));
  }
  return element("div", {{"class", "figures small"}}, code);
}

Markup numbers(const std::string& caption, const std::vector<Rounded>& all, const Bins& bins) {
  Table table{.caption = caption, .columns = {"", "", "elements", "correctly rounded", "worst, ulp"}};
  for (const auto& [lower, bin] : bins) table.columns.push_back(bin + " ulp");
  for (const Rounded& one : all)
    for (const auto& [who, side] : {std::pair{"candidate", one.candidate}, {"provider", one.provider}}) {
      Markup cells = head(one.name) + cell(who) + number_cell("finite", grouped(side.finite)) +
                     number_cell("share_correctly_rounded", fmt::format("{:.5f}", side.correctly_rounded)) +
                     (side.worst < 0 ? cell("") : number_cell("worst/ulp", grouped(side.worst)));
      for (const auto& [lower, bin] : bins) {
        const auto found = side.bins.find(bin);
        cells << (found == side.bins.end()
                      ? cell("")
                      : number_cell(("histogram/" + bin).c_str(), grouped(found->second)));
      }
      table.rows << row(one.from + "/" + who, cells);
    }
  return details("the numbers", table.code());
}

Markup of_pass(const std::string& subject, const std::vector<Rounded>& all) {
  if (all.empty()) return {};
  const Bins bins = bins_of(all);
  return figures(all, bins) + numbers(subject + ": elements by distance in ulp", all, bins);
}

std::int64_t same(const std::vector<Rounded>& all) {
  return std::ranges::count_if(all, [](const Rounded& one) { return one.candidate == one.provider; });
}

Markup legend() {
  const auto item = [](const char* kind, const char* name) {
    return element("li", element("span", {{"class", kind}}, "") + words(name));
  };
  return element("ul", {{"class", "legend"}},
                 item("key candidate", "candidate") +
                     item("key candidate other", "candidate, not as many as the provider") +
                     item("key provider", "provider"));
}

}  // namespace

Markup beside_provider(const Run& run) {
  Markup code;
  for (const TensorReport& report : run.reports) {
    if (report.whole_model) continue;
    code << reading(run.inputs.sources[report.source], [&](const Json& json) {
      const auto nodes = rounded_in(report, json, Pass::forward),
                 gradients = rounded_in(report, json, Pass::backward);
      if (nodes.empty() && gradients.empty()) return Markup();
      const std::string subject = fmt::format("{}, {}", report.subject(), report.engine);
      std::int64_t elements = 0;
      for (const Rounded& one : nodes) elements += one.elements;
      Markup found =
          element("h3", "Beside the provider: " + subject) +
          element("p", {{"class", "note"}},
                  fmt::format("{} of {} nodes are rounded as the provider's. Bars: share of the "
                              "elements by distance in ulp, logarithmic; above them the share that "
                              "is correctly rounded. {} elements, of the full-width rows that are "
                              "recorded of {}.",
                              same(nodes), nodes.size(), grouped(elements), report.provider));
      found << legend() << of_pass(subject, nodes);
      if (!gradients.empty())
        found << details(
            fmt::format("gradients: {} of {} as the provider's", same(gradients), gradients.size()),
            of_pass(subject + ", gradients", gradients));
      return found;
    });
  }
  return code;
}

}  // namespace h3::page
