// h3_bench_cuda: the benchmark without the provider, as JSON where asked for. fixtures/race_provider.py runs
// both in turn.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "conformance/bench/cuda/benchmark.h"
#include "kernels/cuda/device.h"
#include "model/atomic_file.h"
#include "model/json.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string rate(const BenchmarkItem& item, double us) {
  if (item.flops > 0) return fmt::format("{:>8.1f} TFLOP/s", item.flops / us * 1e-6);
  if (item.bytes > 0)
    return fmt::format("{:>8.1f} GB/s {:>4.0f} %", item.bytes / us * 1e-3,
                       100e6 * item.bytes / us / kCopyBytesPerSecond);
  return "";
}

// Everything takes its turn in every round, so that a drifting clock touches all alike.
Json measured(std::int64_t rows, bool with_backward, int rounds) {
  const Benchmark benchmark(rows, with_backward);
  std::map<std::string, std::vector<double>> times;
  constexpr int kWarmUps = 3;
  for (int round = -kWarmUps; round < rounds; ++round)
    for (const auto& item : benchmark.items())
      if (const double us = benchmark.microseconds(item.name); round >= 0) times[item.name].push_back(us);
  fmt::print("S = {}\n", rows);
  Json result = {{"rows", rows}, {"items", Json::object()}};
  for (const auto& item : benchmark.items()) {
    const double us = median(times[item.name]);
    fmt::print("  {:<24}{:>11.2f} us  {}\n", item.name, us, rate(item, us));
    result["items"][item.name] = {{"us", us}, {"flops", item.flops}, {"bytes", item.bytes}};
  }
  std::fflush(stdout);
  return result;
}

int main_of_bench(int argc, char** argv) {
  CLI::App app("Times the strict block on a Hopper GPU: forward, backward and every node of both.",
               "h3_bench_cuda");
  std::vector<std::int64_t> rows = {264, 925, 3160, 8192, 38718};
  int rounds = 15;
  bool forward_only = false;
  std::string json_file;
  app.add_option("--rows", rows, "packed rows")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", rounds, "timed rounds")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--forward-only", forward_only, "leave the backward out");
  app.add_option("--json", json_file, "write the medians here");
  CLI11_PARSE(app, argc, argv);

  if (const std::string why = cuda::why_unavailable(); !why.empty()) fail("{}", why);
  fmt::print("{}, medians of {} rounds; share of {} TB/s\n", cuda::device_name(), rounds,
             kCopyBytesPerSecond * 1e-12);
  Json all = {{"device", cuda::device_name()}, {"rounds", rounds}, {"rows", Json::array()}};
  for (const std::int64_t count : rows) all["rows"].push_back(measured(count, !forward_only, rounds));
  if (!json_file.empty()) write_file(json_file, all.dump(2) + "\n");
  return 0;
}

}  // namespace
}  // namespace h3

int main(int argc, char** argv) {
  try {
    return h3::main_of_bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "h3_bench_cuda: %s\n", error.what());
    return 2;
  }
}
