// h3 fingerprint: the architecture, its totals and its digest.
#include "model/fingerprint.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "harness/cli/commands.h"
#include "model/json.h"

namespace h3::cli {
namespace {

struct Options {
  bool json = false, tensors = false;
};

const char* title_of(Group group) {
  switch (group) {
    case Group::boundary:
      return "boundary";
    case Group::refiner:
      return "refiner blocks";
    case Group::block:
      return "transformer blocks";
  }
  return "?";
}

struct Total {
  std::int64_t tensors = 0, parameters = 0, size_bytes = 0;
};

std::map<Group, Total> totals_of(const std::vector<TensorSpec>& specs) {
  std::map<Group, Total> totals;
  for (const TensorSpec& spec : specs) {
    Total& total = totals[spec.group];
    ++total.tensors;
    total.parameters += spec.elements();
    total.size_bytes += spec.size_bytes();
  }
  return totals;
}

void print_json(const Config& config, const Options& options) {
  const Fingerprint print = fingerprint(config);
  const auto specs = tensor_specs(config);
  nlohmann::ordered_json out = {{"sha256", print.sha256},
                                {"tensors", print.tensors},
                                {"parameters", print.parameters},
                                {"bytes", print.size_bytes},
                                {"fp32_tensors", print.fp32_tensors},
                                {"fp32_parameters", print.fp32_parameters},
                                {"nodes", print.nodes},
                                {"block_nodes", kBlockNodes},
                                {"refiner_nodes", kRefinerNodes}};
  for (const auto& [group, total] : totals_of(specs))
    out["groups"][title_of(group)] = {
        {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.size_bytes}};
  if (options.tensors)
    for (const TensorSpec& spec : specs)
      out["tensor_list"].push_back(
          {{"name", spec.name}, {"shape", spec.shape}, {"dtype", name_of(spec.dtype)}});
  fmt::print("{}\n", out.dump(2));
}

void print_table(const Config& config, const Options& options) {
  const Fingerprint print = fingerprint(config);
  const auto specs = tensor_specs(config);
  if (options.tensors)
    for (const TensorSpec& spec : specs)
      fmt::print("{:<56} {:>12} {}\n", spec.name, to_string(spec.shape), name_of(spec.dtype));
  fmt::print("{:<20} {:>7} {:>16} {:>16}\n", "part", "tensors", "parameters", "bytes");
  for (const auto& [group, total] : totals_of(specs))
    fmt::print("{:<20} {:>7} {:>16} {:>16}\n", title_of(group), total.tensors, grouped(total.parameters),
               grouped(total.size_bytes));
  fmt::print("\n{} tensors, {} parameters, {} bytes\n", grouped(print.tensors), grouped(print.parameters),
             grouped(print.size_bytes));
  fmt::print("of which fp32: {} tensors, {} parameters\n", grouped(print.fp32_tensors),
             grouped(print.fp32_parameters));
  fmt::print("{} nodes: {} blocks x {} + {} refiner blocks x {}\n", print.nodes, config.num_layers,
             kBlockNodes.size(), config.num_refiner_layers, kRefinerNodes.size());
  fmt::print("sha256 {}\n", print.sha256);
}

}  // namespace

void add_fingerprint(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("fingerprint", "Print the architecture: tensors, totals, nodes, digest");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--tensors", options->tensors, "List every tensor with shape and storage type");
  command->footer(
      "Examples:\n"
      "  h3 fingerprint\n"
      "  h3 fingerprint --tensors | grep transformer_blocks.0\n"
      "  h3 fingerprint --json > fingerprint.json");
  command->callback(
      [options] { options->json ? print_json(Config{}, *options) : print_table(Config{}, *options); });
}

}  // namespace h3::cli
