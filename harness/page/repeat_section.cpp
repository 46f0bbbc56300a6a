// Runs x nodes: which replays of one block and layout gave which bytes.
#include <algorithm>
#include <map>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

constexpr std::size_t kShown = 8;  // digits of a digest

struct Group {
  std::vector<const TensorReport*> runs;
  const TensorReport& first() const { return *runs.front(); }
};

std::vector<Group> groups_of(const Run& run) {
  std::vector<Group> groups;
  for (const TensorReport& report : run.reports) {
    if (report.whole_model) continue;
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      const TensorReport& first = group.first();
      return first.graph == report.graph && first.layout == report.layout && first.weights == report.weights;
    });
    (same == groups.end() ? groups.emplace_back() : *same).runs.push_back(&report);
  }
  return groups;
}

const Reading* find(const TensorReport& report, const Reading& wanted) {
  const auto found = std::ranges::find_if(report.readings, [&](const Reading& one) {
    return one.pass == wanted.pass && one.name == wanted.name;
  });
  return found == report.readings.end() ? nullptr : &*found;
}

Markup bytes_cell(Bytes bytes, const char* if_different = "over") {
  switch (bytes) {
    case Bytes::same:
      return cell("=", "same");
    case Bytes::differ:
      return cell("≠", if_different);
    case Bytes::not_repeatable:
      return cell("~", "blind");
    default:
      return cell("");
  }
}

// A column a run, and what each run says of itself beside its digest.
Table table_of(const Run& run, const Group& group, Pass pass) {
  Table table{
      .caption = fmt::format("{}, {}: first {} digits of every digest (XXH3-128)", group.first().subject(),
                             pass == Pass::forward ? "nodes" : "gradients", kShown),
      .columns = {pass == Pass::forward ? "node" : "gradient of"},
      .kind = "repeat"};
  for (const TensorReport* report : group.runs)
    for (const std::string& column :
         {run.inputs.sources[report->source].name + ", " + report->engine, std::string("repeat"),
          std::string("batch row"), std::string("provider")})
      table.columns.push_back(column);
  for (const Reading& one : group.first().readings) {
    if (one.pass != pass) continue;
    Markup line = head(one.name);
    for (const TensorReport* report : group.runs) {
      const Reading* here = find(*report, one);
      if (!here) {
        line << cell("–") << cell("") << cell("") << cell("");
        continue;
      }
      const char* kind = report == &group.first() ? "" : here->digest == one.digest ? "same" : "over";
      line << element("td", {{"class", kind}, {"data-from", here->from}},
                      element("code", {{"data-at", "xxh3_128"}}, here->digest.substr(0, kShown)))
           << bytes_cell(here->repeat) << bytes_cell(here->batch) << bytes_cell(here->provider, "other");
    }
    table.rows << row("", line);
  }
  return table;
}

}  // namespace

Markup repeat_section(const Run& run) {
  Markup code;
  for (const Group& group : groups_of(run)) {
    code << element("h3", fmt::format("{}: {} {}", group.first().subject(), group.runs.size(),
                                      group.runs.size() == 1 ? "run" : "runs"));
    code << table_of(run, group, Pass::forward).code();
    const bool backward = std::ranges::count(group.first().readings, Pass::backward, &Reading::pass) > 0;
    if (backward) code << details("gradients", table_of(run, group, Pass::backward).code());
  }
  return section("repeat", "The same bytes, or not",
                 "= same bytes, ≠ others, ~ the provider itself does not repeat. Repeat: a second run in the "
                 "same process. "
                 "Batch row: the same row alone and in another sequence. Of several runs, all are held "
                 "against the first.",
                 code);
}

}  // namespace h3::page
