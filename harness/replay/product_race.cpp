#include "harness/replay/product_race.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/execution/execution.h"
#include "model/error.h"

namespace h3 {

using Json = nlohmann::ordered_json;

double RaceEntry::median() const {
  require(!milliseconds.empty(), "{}: no round was timed", name);
  std::vector<double> sorted = milliseconds;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

std::string to_table(const RaceReport& report) {
  std::string out =
      fmt::format("{}  vendor: {}\nmedian of {} interleaved rounds, cold second-level cache, seed {}\n",
                  report.device, report.vendor, report.rounds, report.seed);
  for (const ProductRace& race : report.products) {
    out += fmt::format("\n{}: {} rows, {} outputs, depth {}\n{:<24} {:>11} {:>9} {:>11}  {}\n", race.node,
                       race.rows, race.outputs, race.depth, "candidate", "ms", "TFLOP/s", "time / ours",
                       "bytes");
    for (const RaceEntry& entry : race.entries) {
      const std::int64_t all = race.rows * race.outputs;
      const std::string bytes =
          entry.differing ? fmt::format("{} of {} elements differ", entry.differing, all) : "= ours";
      out += fmt::format("{:<24} {:>11.4f} {:>9.1f} {:>10.3f}x  {}\n", entry.name, entry.median(),
                         race.flops() / entry.median() * 1e-9, race.ratio(entry), bytes);
    }
  }
  return out;
}

Json to_json(const RaceReport& report) {
  Json json = {{"schema", "h3.gemm.v1"}, {"device", report.device}, {"vendor", report.vendor},
               {"rows", report.rows},    {"rounds", report.rounds}, {"seed", report.seed}};
  json["products"] = Json::array();
  for (const ProductRace& race : report.products) {
    Json entries = Json::array();
    for (const RaceEntry& entry : race.entries)
      entries.push_back({{"name", entry.name},
                         {"equals_ours", entry.differing == 0},
                         {"differing", entry.differing},
                         {"median_ms", entry.median()},
                         {"ratio", race.ratio(entry)}});
    json["products"].push_back({{"node", race.node},
                                {"rows", race.rows},
                                {"outputs", race.outputs},
                                {"depth", race.depth},
                                {"candidates", entries}});
  }
  return json;
}

#ifndef H3_HAVE_CUDA
RaceReport race_products(const RaceRequest&) {
  cuda_device_name();  // an Error that says why
  fail("products are raced on a GPU");
}
#endif

}  // namespace h3
