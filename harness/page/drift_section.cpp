// The drift map: 17 nodes x blocks, the refiner before them, the boundaries beside; one map a question.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

struct Shade {
  std::string kind, text;  // class and content of a cell
  std::string says;        // of it, in words
  std::string from;        // the distance that it shows, or nothing
  double rank = -1;        // of several tensors at one place the highest is shown
};

struct Plane {
  const char* name;
  Pass pass;
  std::function<Shade(const Reading&)> shade;  // no kind: nothing to show
};

Shade shade_of(const std::optional<Distance>& distance) {
  if (!distance || !std::isfinite(distance->bound)) return {};
  const double used = distance->used();
  const std::string says = fmt::format("{} of {}", scientific(distance->error), scientific(distance->bound));
  if (distance->blind()) return {"blind", "b", says + ", blind", distance->from, 0};
  if (!std::isfinite(used)) return {"over", "!", says, distance->from, 1e300};
  constexpr double kSteps[] = {0.1, 0.25, 0.4, 0.55, 0.7, 0.85};
  const auto step = std::ranges::upper_bound(kSteps, used) - std::begin(kSteps);
  const double share = std::round(100 * used);
  return {distance->exceeded() ? "over" : fmt::format("u{}", step),
          share > 999 ? "≫" : fmt::format("{:.0f}", share), says, distance->from, 1 + used};
}

// Other bytes than the provider's decide only where a gate says so; other bytes than its own are a fault of a
// run.
Shade shade_of(Bytes bytes, const char* if_different = "over") {
  switch (bytes) {
    case Bytes::same:
      return {"same", "=", "the same bytes", "", 1};
    case Bytes::differ:
      return {if_different, "≠", "other bytes", "", 2};
    case Bytes::not_repeatable:
      return {"blind", "~", "the provider does not repeat", "", 0};
    default:
      return {};
  }
}

// An isolated golden where the whole model ran; else whether a node left the provider's bytes although its
// inputs had them.
Shade isolated_shade(const Reading& one) {
  return one.isolated ? shade_of(one.isolated) : shade_of(one.isolated_bytes, "other");
}

const std::vector<Plane>& planes() {
  static const std::vector<Plane> list = {
      {"forward, chained", Pass::forward, [](const Reading& one) { return shade_of(one.chained); }},
      {"forward, isolated", Pass::forward, isolated_shade},
      {"forward, provider's bytes", Pass::forward,
       [](const Reading& one) { return shade_of(one.provider, "other"); }},
      {"forward, repeat", Pass::forward, [](const Reading& one) { return shade_of(one.repeat); }},
      {"forward, batch row", Pass::forward, [](const Reading& one) { return shade_of(one.batch); }},
      {"backward, chained", Pass::backward, [](const Reading& one) { return shade_of(one.chained); }},
      {"backward, isolated", Pass::backward, [](const Reading& one) { return shade_of(one.isolated); }},
      {"backward, provider's bytes", Pass::backward,
       [](const Reading& one) { return shade_of(one.provider, "other"); }},
      {"backward, repeat", Pass::backward, [](const Reading& one) { return shade_of(one.repeat); }},
      {"backward, batch row", Pass::backward, [](const Reading& one) { return shade_of(one.batch); }},
  };
  return list;
}

// What is known of one model and layout, however many reports say it.
struct Map {
  std::string config, layout;
  std::vector<const TensorReport*> reports;
};

std::vector<Map> maps_of(const Run& run) {
  std::vector<Map> maps;
  for (const TensorReport& report : run.reports) {
    const auto known = std::ranges::find_if(
        maps, [&](const Map& map) { return map.config == report.config && map.layout == report.layout; });
    Map& map = known == maps.end() ? maps.emplace_back(Map{report.config, report.layout, {}}) : *known;
    map.reports.push_back(&report);
  }
  return maps;
}

using Column = std::pair<Place::Part, int>;

struct Cells {
  std::map<std::pair<Column, std::string>, Shade> at;
  std::map<std::pair<Column, std::string>, std::string> tensor;  // the one that is shown
  std::set<std::pair<Column, std::string>> first;                // refused, and the first of its report

  Cells(const Map& map, const Plane& plane) {
    for (const TensorReport* report : map.reports) {
      bool refused = false;
      for (const Reading& one : report->readings) {
        if (one.pass != plane.pass) continue;
        const Shade shade = plane.shade(one);
        if (shade.kind.empty()) continue;
        const std::pair key{Column{one.place.part, one.place.index}, one.place.node};
        if ((shade.kind == "over" || shade.kind == "other") && !refused) first.insert(key), refused = true;
        if (const auto known = at.find(key); known != at.end() && known->second.rank >= shade.rank) continue;
        at[key] = shade;
        tensor[key] = one.name;
      }
    }
  }

  Markup cell(const std::pair<Column, std::string>& key) const {
    const auto found = at.find(key);
    if (found == at.end()) return element("td", "");
    const Shade& shade = found->second;
    return element("td",
                   {{"class", first.contains(key) ? shade.kind + " first" : shade.kind},
                    {"data-used", shade.from},
                    {"title", fmt::format("{}: {}", tensor.at(key), shade.says)}},
                   shade.text);
  }
};

using Planes = std::vector<std::pair<const Plane*, Cells>>;

std::set<Column> columns_of(const Planes& planes, Pass pass) {
  std::set<Column> columns;
  for (const auto& [plane, cells] : planes)
    for (const auto& [key, shade] : cells.at)
      if (plane->pass == pass && key.first.first != Place::Part::boundary) columns.insert(key.first);
  return columns;
}

// What any plane of this pass shows, the 17 nodes first and in their order.
std::vector<std::string> nodes_of(const Planes& planes, Pass pass) {
  std::vector<std::string> nodes = block_nodes();
  std::set<std::string> shown;
  for (const auto& [plane, cells] : planes)
    for (const auto& [key, shade] : cells.at) {
      if (plane->pass != pass || key.first.first == Place::Part::boundary) continue;
      shown.insert(key.second);
      if (std::ranges::count(nodes, key.second) == 0) nodes.push_back(key.second);  // hidden_states, temb
    }
  std::erase_if(nodes, [&](const std::string& node) { return !shown.contains(node); });
  return nodes;
}

Markup block_map(const Map& map, const Plane& plane, const Cells& cells, const std::set<Column>& columns,
                 const std::vector<std::string>& nodes) {
  Table table{.caption = fmt::format("{}, {}: {}", map.config, map.layout, plane.name),
              .columns = {"node"},
              .kind = "map"};
  if (columns.size() > 16) table.kind += " dense";
  for (const auto& [part, index] : columns)
    table.columns.push_back(part == Place::Part::refiner ? fmt::format("r{}", index) : std::to_string(index));
  for (const std::string& node : nodes) {
    Markup line = head(node);
    for (const Column& column : columns) line << cells.cell({column, node});
    table.rows << row("", line);
  }
  return table.code();
}

// One place of the model, a column a plane: the boundaries, or a block when it is the only one.
Markup place_map(const std::string& caption, const Planes& planes, const Column& place,
                 const std::vector<std::string>& names, std::optional<Pass> pass = {}) {
  std::vector<const std::pair<const Plane*, Cells>*> shown;
  for (const auto& plane : planes)
    if ((!pass || plane.first->pass == *pass) && std::ranges::any_of(names, [&](const auto& name) {
          return plane.second.at.contains({place, name});
        }))
      shown.push_back(&plane);
  if (shown.empty()) return {};
  Table table{.caption = caption, .columns = {"node"}, .kind = "map places"};
  for (const auto* plane : shown) {
    const std::string name = plane->first->name;
    table.columns.push_back(pass ? name.substr(name.find(", ") + 2) : name);
  }
  for (const std::string& name : names) {
    Markup line = head(name);
    for (const auto* plane : shown) line << plane->second.cell({place, name});
    table.rows << row("", line);
  }
  return table.code();
}

std::vector<std::string> boundaries_of(const Map& map) {
  std::vector<std::string> names;
  for (const TensorReport* report : map.reports)
    for (const Reading& one : report->readings)
      if (one.place.part == Place::Part::boundary && std::ranges::count(names, one.place.node) == 0)
        names.push_back(one.place.node);
  return names;
}

Markup maps(const Map& map) {
  Planes all;
  for (const Plane& plane : planes())
    if (Cells cells(map, plane); !cells.at.empty()) all.emplace_back(&plane, std::move(cells));
  Markup grid;
  bool places_only = true;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const std::set<Column> columns = columns_of(all, pass);
    const std::vector<std::string> nodes = nodes_of(all, pass);
    if (columns.size() == 1) {
      grid << place_map(
          fmt::format("{}, {}: block {}, {}", map.config, map.layout, columns.begin()->second, name_of(pass)),
          all, *columns.begin(), nodes, pass);
      continue;
    }
    places_only = places_only && columns.empty();
    for (const auto& [plane, cells] : all)
      if (plane->pass == pass && !columns_of({{plane, cells}}, pass).empty())
        grid << block_map(map, *plane, cells, columns, nodes);
  }
  grid << place_map(fmt::format("{}, {}: boundaries", map.config, map.layout), all,
                    {Place::Part::boundary, -1}, boundaries_of(map));
  return element("div", {{"class", places_only ? "planes pair" : "planes"}}, grid);
}

Markup first_drifts(const Map& map) {
  Markup list;
  for (const TensorReport* report : map.reports)
    for (const Drift& drift : report->drifts)
      list << element("div",
                      element("dt", drift.name) +
                          element("dd", drift.found == "not checked" || (!drift.none && report->accepted)
                                            ? words(drift.found)
                                            : verdict(drift.none, drift.found)));
  return element("dl", {{"class", "drifts"}}, list);
}

Markup legend() {
  Markup keys;
  const auto key = [&](const char* kind, const char* sign, const char* text) {
    keys << element("li", element("span", {{"class", std::string("key ") + kind}}, sign) + words(text));
  };
  key("u0", "8", "under 10 % of the bound");
  key("u2", "33", "");
  key("u4", "62", "");
  key("u6", "93", "the whole of it");
  key("over", "120", "beyond it");
  key("same", "=", "the same bytes");
  key("over", "≠", "not the run's own");
  key("other", "≠", "not the provider's; the verdict says whether that decides");
  key("blind", "b", "blind: the bound is 1 or more and decides nothing");
  key("blind", "~", "the provider does not repeat");
  return element("ul", {{"class", "legend"}}, keys);
}

}  // namespace

Markup drift_section(const Run& run) {
  Markup code;
  for (const Map& map : maps_of(run)) {
    code << element("h3", fmt::format("{} model, {}", map.config, map.layout)) + first_drifts(map) +
                maps(map);
  }
  return section("drift", "Where it drifts",
                 "Nodes down, blocks across (r: refiner). A number is the error in percent of its bound; of "
                 "several tensors at "
                 "one place, such as a node's gradient and that of its weight, the nearest to its bound. An "
                 "empty place was "
                 "not compared; a ring marks the first drift in execution order.",
                 code.empty() ? code : legend() + code);
}

}  // namespace h3::page
