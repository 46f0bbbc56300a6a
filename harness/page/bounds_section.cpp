// Error beside bound, the nearest to its bound first, with what the provider itself needs.
#include <algorithm>
#include <cmath>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

constexpr std::size_t kFirst = 24;  // shown at once, the rest on demand

// The distance that decides: isolated where there is one that is not blind, as the full model's gate does.
const Distance* deciding(const Reading& one) {
  const auto decides = [](const std::optional<Distance>& d) {
    return d && std::isfinite(d->bound) && !d->blind();
  };
  if (decides(one.isolated)) return &*one.isolated;
  return decides(one.chained) ? &*one.chained : nullptr;
}

std::string name_of(const Reading& one) {
  const std::string block = one.place.part == Place::Part::block ? fmt::format("block {}: ", one.place.index)
                            : one.place.part == Place::Part::refiner
                                ? fmt::format("refiner {}: ", one.place.index)
                                : "";
  return (one.pass == Pass::backward ? "d " : "") + block + one.name;
}

Markup distance_cells(const std::optional<Distance>& distance, const char* error_at, const char* bound_at) {
  if (!distance) return cell("–", "n") + cell("–", "n");
  return number_cell(error_at, scientific(distance->error)) +
         (distance->blind()
              ? element("td", {{"class", "n muted"}, {"title", scientific(distance->bound)}}, "blind")
              : number_cell(bound_at, scientific(distance->bound)));
}

Markup provider_cell(const Reading& one) {
  switch (one.provider) {
    case Bytes::same:
      return cell("= provider", "good");
    case Bytes::differ:
      return cell("other bytes");
    case Bytes::not_repeatable:
      return cell("does not repeat", "muted");
    default:
      return cell("–", "muted");
  }
}

Markup line_of(const Reading& one, bool whole_model) {
  const Distance* by = deciding(one);
  Markup line = head(name_of(one)) + (by ? used_bar(*by) : cell(""));
  line << cell(by             ? percent(by->used())
               : one.accepted ? "–"
                              : "refused",
               one.accepted ? "n used" : "n used bad");
  if (whole_model) {
    line << distance_cells(one.isolated, "isolated/relative_l2", "isolated/bound")
         << distance_cells(one.chained, "chained/relative_l2", "chained/bound");
  } else {
    line << distance_cells(one.chained, "golden/relative_l2", "golden/bound");
  }
  return row(one.from, line + provider_cell(one));
}

Table table_of(const TensorReport& report, const std::string& which) {
  Table table{.caption = fmt::format("{}, {}: {}", report.subject(), report.engine, which),
              .columns = {"tensor", "share of the bound", "used"},
              .kind = "bars searchable"};
  const std::vector<std::string> columns =
      report.whole_model ? std::vector<std::string>{"isolated", "bound", "chained", "bound", "provider"}
                         : std::vector<std::string>{"error", "bound", "provider"};
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  return table;
}

Markup report_bars(const TensorReport& report) {
  std::vector<const Reading*> order;
  for (const Reading& one : report.readings)
    if (one.chained || one.isolated) order.push_back(&one);
  const auto rank = [](const Reading* one) {
    const Distance* by = deciding(*one);
    if (!one->accepted) return 1e300;
    return by && std::isfinite(by->used()) ? by->used() : -1.0;
  };
  std::ranges::stable_sort(order, [&](const Reading* a, const Reading* b) { return rank(a) > rank(b); });
  if (order.empty()) return {};
  const auto over_half = std::ranges::count_if(order, [&](const Reading* one) { return rank(one) > 0.5; });
  const auto banded = std::ranges::any_of(order, [&](const Reading* one) {
    const Distance* by = deciding(*one);
    return by && by->provider;
  });
  Table first = table_of(report, "nearest to their bound"), rest = table_of(report, "the others");
  for (std::size_t i = 0; i < order.size(); ++i)
    (i < kFirst ? first : rest).rows << line_of(*order[i], report.whole_model);
  Markup code = element("h3", report.subject());
  code << element(
      "p", {{"class", "note"}},
      fmt::format("{} tensors, {} of them above half of their bound. The line is the bound{}.", order.size(),
                  over_half,
                  !banded              ? ""
                  : report.whole_model ? "; the bracket spans the members of the provider's ensemble"
                                       : "; the bracket is where the provider itself is"));
  code << first.code();
  if (order.size() > kFirst)
    code << details(fmt::format("the other {} tensors", order.size() - kFirst), rest.code());
  return code;
}

}  // namespace

Markup bounds_section(const Run& run) {
  Markup code;
  for (const TensorReport& report : run.reports) code << report_bars(report);
  return section("bounds", "Error beside its bound",
                 "Relative L2 distance to the FP64-accumulated golden, without a unit.", code);
}

}  // namespace h3::page
