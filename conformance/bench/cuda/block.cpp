// h3_bench_cuda: time of a block's forward on a Hopper GPU, whole (one CUDA graph of its 17 nodes, in which
// q, k and v share launches and no node's output is kept that nobody reads) and node by node.
//
// Everything lies on the GPU before the clock starts: synthetic weights of block 0, a synthetic stream, and
// every node reads what the node before wrote. The whole and the nodes are timed in turn, round by round, so
// that a drifting clock touches all alike; the medians are printed. `--against FILE` puts the provider's
// medians (fixtures/time_provider.py) beside them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/cuda_block.h"
#include "harness/cuda_graph.h"
#include "kernels/cuda/device.h"
#include "kernels/rotary_tables.h"
#include "model/atomic_file.h"
#include "model/checkpoint.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBytesPerSecond = 4.3e12;  // what a copy reaches on an H200
constexpr std::int64_t kTimesteps = 3;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Benchmark {
 public:
  explicit Benchmark(std::int64_t most_rows)
      : block_(config_, transformer_block(config_, 0), SyntheticWeights(kDefaultSeed)) {
    hidden_states_ = cuda::upload(synthetic_activation(kDefaultSeed, "bench.hidden_states",
                                                       {most_rows, config_.hidden_size}, DType::bf16));
    temb_ = cuda::upload(
        synthetic_activation(kDefaultSeed, "bench.temb", {kTimesteps, config_.time_embed_dim}, DType::fp32));
  }

  Json time(std::int64_t rows, int rounds) {
    prepare(rows);
    const auto& nodes = block_.graph().nodes;
    for (const Node& node : nodes)
      block_.launch(node, nullptr);  // every buffer holds what its readers expect
    cuda::synchronize();

    std::vector<std::pair<std::string, std::unique_ptr<CudaGraph>>> work;
    work.emplace_back("block", std::make_unique<CudaGraph>([&](Stream stream) {
                        block_.launch(CudaBlock::Norms::not_kept, stream);
                      }));
    for (const Node& node : nodes) {
      const auto launch = [&](Stream stream) { block_.launch(node, stream); };
      const double once = CudaGraph(launch).microseconds();
      const int repeats = std::clamp(int(300 / once), 1, 30);
      work.emplace_back(node.name, std::make_unique<CudaGraph>(launch, repeats));
    }
    for (int i = 0; i < 3; ++i)
      for (const auto& [name, graph] : work) graph->run();
    std::map<std::string, std::vector<double>> times;
    for (int i = 0; i < rounds; ++i)
      for (const auto& [name, graph] : work) times[name].push_back(graph->microseconds());

    Json result = {{"rows", rows}, {"block_us", median(times["block"])}, {"nodes", Json::object()}};
    for (const Node& node : nodes) {
      Json line = {{"us", median(times[node.name])}};
      if (const double flops = flops_of(node, rows))
        line["flops"] = flops;
      else
        line["bytes"] = bytes_of(node);
      result["nodes"][node.name] = line;
    }
    return result;
  }

 private:
  void prepare(std::int64_t rows) {
    Tensor index(DType::i64, {rows}), positions(DType::fp64, {rows, 3});
    for (std::int64_t s = 0; s < rows; ++s) {
      index.data<std::int64_t>()[s] = s % (kTags * kTimesteps);
      for (int axis = 0; axis < 3; ++axis)
        positions.data<double>()[3 * s + axis] = double((s >> (5 * axis)) % 32);
    }
    Tensor cos = cuda::allocate(DType::fp32, {rows, config_.rotary_dim()}),
           sin = cuda::allocate(DType::fp32, {rows, config_.rotary_dim()});
    kernels::cuda::rotary_tables(positions, config_.rope_theta, cos, sin, nullptr);
    block_.take({{"hidden_states", hidden_states_.row_range(0, rows)},
                 {"temb", temb_},
                 {"adaln_indices", index},
                 {"rotary_cos", cos},
                 {"rotary_sin", sin}});
  }

  double flops_of(const Node& node, std::int64_t rows) const {
    if (node.name == "attention") return 4.0 * double(rows) * double(rows) * double(node.cols);
    if (node.name.ends_with("_proj") || node.name == "ffn_gate_up" || node.name == "ffn_down")
      return 2.0 * double(rows) * double(block_.parameter(node.parameters[0]).elements());
    return 0;
  }
  // Read and written once; the modulation table stays in the cache.
  double bytes_of(const Node& node) const {
    double bytes = double(block_.value(node.name).size_bytes());
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (const Tensor& in = block_.value(node.inputs[i]); !in.empty() && node.by_row(i))
        bytes += double(in.size_bytes());
    for (const auto& name : node.parameters) bytes += double(block_.parameter(name).size_bytes());
    return bytes;
  }

  Config config_;
  CudaBlock block_;
  Tensor hidden_states_, temb_;
};

// The provider's times at the same number of rows; null when it has none.
Json provider_at(const Json& provider, std::int64_t rows) {
  if (provider.is_object())
    for (const Json& line : provider.at("rows"))
      if (line.at("rows") == rows) return line;
  return nullptr;
}

void print(const Json& result, const Json& provider) {
  const auto ratio = [](double ours, const Json& line, const char* key) {
    if (!line.is_object() || !line.contains(key)) return std::string("      -");
    return fmt::format("{:>6.3f}x", line[key].get<double>() / ours);
  };
  const double us = result["block_us"];
  fmt::print("S = {}\n  {:<18}{:>11.1f} us   provider, CUDA graph {}  eager {}\n",
             result["rows"].get<std::int64_t>(), "block, 17 nodes", us, ratio(us, provider, "block_graph_us"),
             ratio(us, provider, "block_eager_us"));
  for (const auto& [name, node] : result["nodes"].items()) {
    const double t = node["us"];
    std::string rate;
    if (node.contains("flops")) {
      rate = fmt::format("{:>8.1f} TFLOP/s", node["flops"].get<double>() / t * 1e-6);
    } else {
      const double per_second = node["bytes"].get<double>() / t * 1e6;
      rate = fmt::format("{:>8.1f} GB/s  {:>3.0f} %", per_second * 1e-9, 100 * per_second / kBytesPerSecond);
    }
    const Json nodes = provider.is_object() ? provider.value("nodes_us", Json()) : Json();
    fmt::print("  {:<18}{:>11.2f} us   {}{:<24}\n", name, t, ratio(t, nodes, name.c_str()), rate);
  }
}

int main_of_bench(int argc, char** argv) {
  CLI::App app(
      "Times the strict block forward on a Hopper GPU. A factor above 1 is faster than the provider.",
      "h3_bench_cuda");
  std::vector<std::int64_t> rows = {264, 925, 3160, 8192, 38718};
  int rounds = 15;
  std::string json_file, against;
  app.add_option("--rows", rows, "packed rows")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", rounds, "timed rounds")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--json", json_file, "write the medians here");
  app.add_option("--against", against, "the provider's medians, from fixtures/time_provider.py");
  CLI11_PARSE(app, argc, argv);

  if (const std::string why = cuda::why_unavailable(); !why.empty()) fail("{}", why);
  Json provider;
  if (!against.empty()) {
    std::ifstream file(against);
    provider = Json::parse(file, nullptr, false);
    require(provider.is_object() && provider.contains("rows"),
            "{}: not what fixtures/time_provider.py writes", against);
  }
  Benchmark benchmark(*std::ranges::max_element(rows));
  Json all = {{"device", cuda::device_name()}, {"rounds", rounds}, {"rows", Json::array()}};
  fmt::print("{}, medians of {} rounds; share of {} TB/s\n", cuda::device_name(), rounds,
             kBytesPerSecond * 1e-12);
  for (const std::int64_t count : rows) {
    all["rows"].push_back(benchmark.time(count, rounds));
    print(all["rows"].back(), provider_at(provider, count));
    std::fflush(stdout);
  }
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
