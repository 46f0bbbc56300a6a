// h3 checkpoint: check a folder, write a synthetic one, digest weights.
#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/cli/commands.h"
#include "harness/report/progress.h"
#include "model/config_json.h"
#include "model/json.h"

namespace h3::cli {
namespace {

namespace fs = std::filesystem;

std::int64_t total_bytes(const std::vector<TensorSpec>& specs) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += spec.size_bytes();
  return bytes;
}

OnBytes report_to(Progress& progress) {
  return [&progress](std::int64_t bytes) { progress.add(bytes); };
}

// The tensors of the blocks that were asked for; all of the model when `all`.
std::vector<TensorSpec> selected_specs(const Config& config, const std::vector<std::int64_t>& blocks,
                                       bool all) {
  if (all) return tensor_specs(config);
  std::vector<TensorSpec> specs;
  for (const std::int64_t block : blocks)
    for (TensorSpec& spec : block_specs(config, block)) specs.push_back(std::move(spec));
  return specs;
}

// ---- check ----

struct CheckOptions {
  std::string folder;
  bool hash = false, json = false;
};

std::int64_t bytes_to_hash(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".safetensors") bytes += std::int64_t(entry.file_size(ignored));
  return bytes;
}

void print_report(const CheckpointReport& report) {
  constexpr std::size_t kShown = 20;
  for (const CheckedFile& file : report.files)
    fmt::print("{:<52} {:>14} bytes{}{}\n", file.name, grouped(std::int64_t(file.size)),
               file.sha256.empty() ? "" : "  sha256 ", file.sha256);
  fmt::print("{} tensors, {} bytes\n", grouped(report.tensors), grouped(report.size_bytes));
  for (std::size_t i = 0; i < std::min(kShown, report.problems.size()); ++i)
    fmt::print("problem: {}\n", report.problems[i]);
  if (report.problems.size() > kShown)
    fmt::print("... and {} more problems; --json lists all\n", report.problems.size() - kShown);
  fmt::print("{}\n", text_of(report.verdict));
}

void print_json(const CheckpointReport& report) {
  nlohmann::ordered_json out = {{"verdict", text_of(report.verdict)},
                                {"tensors", report.tensors},
                                {"bytes", report.size_bytes},
                                {"files", nlohmann::json::array()},
                                {"problems", report.problems}};
  for (const CheckedFile& file : report.files) {
    nlohmann::ordered_json entry = {{"name", file.name}, {"bytes", file.size}};
    if (!file.sha256.empty()) entry["sha256"] = file.sha256;
    out["files"].push_back(entry);
  }
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run_check(const CheckOptions& options) {
  require(fs::is_directory(options.folder), "{}: not a folder", options.folder);
  Progress progress("hashing", options.hash ? bytes_to_hash(options.folder) : 0);
  const CheckpointReport report = check_folder(options.folder, Config{}, options.hash, report_to(progress));
  options.json ? print_json(report) : print_report(report);
  if (report.verdict == Verdict::broken) throw CheckFailed();
}

void add_check(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command =
      app.add_subcommand("check", "Hold a checkpoint folder against the model and the public release");
  command->add_option("folder", options->folder, "Folder with config.json and safetensors")->required();
  command->add_flag("--hash", options->hash, "Also read every shard and print its SHA-256");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Says 'released checkpoint', 'same architecture, other weights' or what is wrong (exit code 1).\n"
      "Examples:\n"
      "  h3 checkpoint check MiniMax-H3/transformer\n"
      "  h3 checkpoint check MiniMax-H3/transformer --hash --json > checkpoint.json");
  command->callback([options] { run_check(*options); });
}

// ---- synth ----

struct SynthOptions {
  std::string out, config;
  std::uint64_t seed = kDefaultSeed;
  std::vector<std::int64_t> blocks;
  bool all = false;
  std::uint64_t shard_bytes = std::uint64_t(5) << 30;
};

void run_synth(const SynthOptions& options) {
  require(options.all || !options.blocks.empty(), "say which weights: --block I, or --all");
  const Config config =
      options.config.empty() ? Config{} : config_from_json(read_json(options.config), options.config);
  std::vector<TensorSpec> specs = selected_specs(config, options.blocks, options.all);
  if (!options.all)  // a block's modulation needs the time embedding
    for (const TensorSpec& spec : boundary_specs(config))
      if (spec.name.starts_with("time_embedder.")) specs.push_back(spec);

  fs::create_directories(options.out);
  const std::int64_t bytes = total_bytes(specs);
  const auto available = fs::space(options.out).available;
  require(available > std::uint64_t(bytes), "{}: {} bytes to write, {} available", options.out,
          grouped(bytes), grouped(std::int64_t(available)));
  {
    Progress progress("writing", bytes);
    write_synthetic_checkpoint(options.out, options.seed, config, specs, options.shard_bytes,
                               report_to(progress));
  }
  fmt::print("{}: {} tensors, {} bytes, synthetic, seed {}\n", options.out, specs.size(), grouped(bytes),
             options.seed);
}

void add_synth(CLI::App& app) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command = app.add_subcommand("synth", "Write a synthetic checkpoint, or some blocks of it");
  command->add_option("--out", options->out, "Folder to write; must not hold safetensors yet")->required();
  command->add_option("--seed", options->seed, "Seed of the weights")->capture_default_str();
  auto* blocks = command->add_option("--block", options->blocks, "Blocks to write, with the time embedding");
  command->add_flag("--all", options->all, "Write the whole model (66 GB)")->excludes(blocks);
  command->add_option("--shard-bytes", options->shard_bytes, "Most bytes of data in a shard")
      ->capture_default_str();
  command->add_option("--config", options->config, "config.json of another model size");
  command->footer(
      "Examples:\n"
      "  h3 checkpoint synth --out block0 --block 0\n"
      "  h3 checkpoint synth --out late --seed 11 --block 46 47\n"
      "  h3 checkpoint synth --out small --config small/config.json --all");
  command->callback([options] { run_synth(*options); });
}

// ---- hash ----

struct HashOptions {
  std::string checkpoint;
  std::uint64_t seed = kDefaultSeed;
  std::vector<std::int64_t> blocks;
  bool all = false, json = false;
};

void run_hash(const HashOptions& options) {
  require(options.all || !options.blocks.empty(), "say which weights: --block I, or --all");
  std::unique_ptr<Weights> weights;
  if (options.checkpoint.empty())
    weights = std::make_unique<SyntheticWeights>(options.seed);
  else
    weights = std::make_unique<FolderWeights>(options.checkpoint);

  nlohmann::ordered_json out = {{"weights", weights->identity()}};
  const auto add = [&](const std::string& label, const std::vector<TensorSpec>& specs) {
    std::string digest;
    {
      Progress progress("hashing " + label, total_bytes(specs));
      digest = root_sha256(*weights, specs, report_to(progress));
    }
    out[label] = digest;
    if (!options.json) fmt::print("{} {}\n", digest, label);
  };
  if (!options.json) fmt::print("{}\n", weights->identity());
  for (const std::int64_t block : options.blocks)
    add(fmt::format("transformer_blocks.{}", block), block_specs(weights->config(), block));
  if (options.all) add("all", tensor_specs(weights->config()));
  if (options.json) fmt::print("{}\n", out.dump(2));
}

void add_hash(CLI::App& app) {
  auto options = std::make_shared<HashOptions>();
  CLI::App* command = app.add_subcommand("hash", "Digest the weights of blocks, or of the whole model");
  auto* folder = command->add_option("--checkpoint", options->checkpoint, "Folder of a checkpoint");
  command->add_option("--seed", options->seed, "Seed of synthetic weights")
      ->capture_default_str()
      ->excludes(folder);
  command->add_option("--block", options->blocks, "Blocks to digest, each on its own");
  command->add_flag("--all", options->all, "Digest the whole model");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "The digest is SHA-256 over the lines '<tensor> <sha256 of its bytes>', sorted by name.\n"
      "Examples:\n"
      "  h3 checkpoint hash --seed 7 --block 0\n"
      "  h3 checkpoint hash --checkpoint MiniMax-H3/transformer --block 0 47");
  command->callback([options] { run_hash(*options); });
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "Check, write and digest weights");
  command->require_subcommand(1);
  command->footer("Example:\n  h3 checkpoint check MiniMax-H3/transformer");
  add_check(*command);
  add_synth(*command);
  add_hash(*command);
}

}  // namespace h3::cli
