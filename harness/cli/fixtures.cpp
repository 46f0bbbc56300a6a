// h3 fixtures: what is recorded, the inputs an exporter needs, and the goldens that anybody can regenerate.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "harness/cli/commands.h"
#include "harness/execution/block_inputs.h"
#include "harness/replay/golden_rows.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace h3::cli {
namespace {

struct InputsOptions {
  std::vector<std::string> layouts = {"tiny", "small", "medium"};
  std::string out;
  std::uint64_t seed = kDefaultSeed;
};

// What fixtures/export_block0.py and export_block0_backward.py read: per layout the packed rows' stand-in,
// the gradient of the block's output, positions, tags and timesteps.
void write_inputs(const InputsOptions& options) {
  const Config config;
  std::filesystem::create_directories(options.out);
  const auto weights = open_weights("", options.seed, config);
  for (const auto& name : options.layouts) {
    const PackedLayout layout = named_layout(name);
    const std::map<std::string, Tensor> tensors = {
        {"hidden_states", stand_in_hidden_states(layout, config, options.seed, 0)},
        {"output_gradient", stand_in_output_gradient(layout, config, options.seed)},
        {"positions", layout.positions_tensor()},
        {"timesteps", layout.timesteps_tensor()},
        {"timestep_indices", layout.timestep_indices_tensor()},
        {"token_tags", layout.token_tags_tensor()},
    };
    std::vector<TensorSpec> specs;
    for (const auto& [tensor, value] : tensors)
      specs.push_back({.name = tensor, .shape = value.shape(), .dtype = value.dtype()});
    write_safetensors(options.out + "/" + name + ".safetensors", specs,
                      [&](const TensorSpec& spec) { return tensors.at(spec.name); });
  }
  const nlohmann::ordered_json json = {
      {"weights", weights->identity()}, {"seed", options.seed}, {"layouts", options.layouts}};
  write_file(options.out + "/inputs.json", json.dump(2) + "\n");
}

void list_fixtures() {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(fixture_path("")))
    if (entry.path().extension() == ".h5") files.insert(entry.path());
  for (const auto& path : files) {
    const Hdf5Reader file(path.string());
    const FileDigest digest = digest_file(path.string());
    std::printf("%-24s %10ju bytes  sha256 %s\n", path.filename().c_str(), std::uintmax_t(digest.size),
                digest.sha256.c_str());
    for (const char* fact : {"exported_by", "diffusers", "torch", "device"})
      if (file.has_attribute("/", fact))
        std::printf("    %-12s %s\n", fact, file.string_attribute("/", fact).c_str());
    const auto datasets = file.datasets();
    for (const auto& dataset : datasets) file.verify(dataset);
    std::printf("    %zu datasets, all with their recorded SHA-256\n", datasets.size());
  }
}

// How each file came to be. The manifest repeats it with size and hash, so that a stale file is noticed by
// name.
constexpr std::pair<const char*, const char*> kRecordedBy[] = {
    {"attention_backward.h5", "STEPS=attention fixtures/record_on_gpu.sh OUT"},
    {"block0.h5", "STEPS=block0 fixtures/record_on_gpu.sh OUT"},
    {"block0_backward.h5", "STEPS=backward fixtures/record_on_gpu.sh OUT"},
    {"device_functions.h5", "STEPS=device fixtures/record_on_gpu.sh OUT"},
    {"full_model_reduced_tiny.json", "python3 fixtures/export_full_model.py --inputs FOLDER"},
    {"full_model_reduced_tiny_bounds.json", "build/h3 fullmodel reference"},
    {"full_model_released_tiny.json", "python3 fixtures/export_full_model.py --inputs FOLDER"},
    {"full_model_released_tiny_bounds.json", "build/h3 fullmodel reference --config released"},
    {"full_model_released_small.json", "python3 fixtures/export_full_model.py --inputs FOLDER"},
    {"full_model_released_small_bounds.json",
     "build/h3 fullmodel reference --config released --layout small"},
    {"generation_reduced.h5",
     "python3 fixtures/export_generation.py --weights FOLDER --request FOLDER --device cpu"},
    {"golden.h5", "build/h3 fixtures golden"},
    {"layouts.h5", "python3 fixtures/export_layouts.py"},
    {"noise.h5", "python3 fixtures/export_noise.py"},
    {"products.h5", "STEPS=products fixtures/record_on_gpu.sh OUT"},
    {"small_block.h5", "python3 fixtures/export_small_block.py"},
};

void write_manifest() {
  nlohmann::ordered_json manifest;
  for (const auto& [name, command] : kRecordedBy) {
    const FileDigest digest = digest_file(fixture_path(name).string());
    manifest["files"][name] = {{"bytes", digest.size}, {"sha256", digest.sha256}, {"command", command}};
  }
  write_file(fixture_path("manifest.json").string(), manifest.dump(2) + "\n");
}

}  // namespace

void add_fixtures(CLI::App& app) {
  auto* command =
      app.add_subcommand("fixtures", "Recorded answers: list and verify, inputs for exporters, goldens");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 fixtures list                                   every file with provenance; reads and hashes every dataset
  h3 fixtures inputs --layout tiny --out inputs      what fixtures/export_block0.py needs
  h3 fixtures golden --check                         recompute fixtures/golden.h5 and compare, byte for byte
  h3 fixtures golden --out new.h5)");
  auto* list = command->add_subcommand("list", "Name, provenance and hashes of every fixture file");
  list->callback(list_fixtures);

  command->add_subcommand("manifest", "Rewrite fixtures/manifest.json from the files that lie there")
      ->callback(write_manifest);

  auto inputs = std::make_shared<InputsOptions>();
  auto* write = command->add_subcommand("inputs", "Write the inputs that the provider's exporter runs on");
  write->add_option("--layout", inputs->layouts, "named layouts")->capture_default_str();
  write->add_option("--seed", inputs->seed, "seed of the stand-in inputs")->capture_default_str();
  write->add_option("--out", inputs->out, "folder")->required();
  write->callback([=] { write_inputs(*inputs); });

  auto check = std::make_shared<bool>(false);
  auto out = std::make_shared<std::string>();
  auto* golden =
      command->add_subcommand("golden", "Regenerate the stored golden rows in their fixed FP64 order");
  golden->add_flag("--check", *check, "compare with the stored file instead of writing");
  golden->add_option("--out", *out, "file to write; default: the stored one");
  golden->callback([=] {
    const std::string stored = fixture_path("golden.h5").string();
    if (!*check) return write_golden_rows(out->empty() ? stored : *out);
    std::size_t differing = 0;
    for (const char* layout : kGoldenLayouts) {
      const auto differences = check_golden_rows(stored, layout);
      for (const auto& difference : differences) std::printf("%s\n", difference.c_str());
      std::printf("%s: %s\n", layout,
                  differences.empty() ? "every golden row regenerated byte for byte" : "DIFFERS");
      differing += differences.size();
    }
    if (differing > 0) throw CheckFailed();
  });
}

}  // namespace h3::cli
