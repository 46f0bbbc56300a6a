// h3 generate inputs, forced: what the provider's exporter runs on, and its velocities beside ours.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "fixtures/hdf5.h"
#include "harness/cli/commands.h"
#include "harness/cli/generate_parts.h"
#include "harness/compare/compare.h"
#include "harness/generation/generation_state.h"
#include "harness/generation/model_forward.h"
#include "model/atomic_file.h"
#include "model/safetensors.h"

namespace h3::cli {
namespace {

// What fixtures/export_generation.py reads: the request's structure, and the rows that each seed begins with.
void write_request(const GenerationContract& contract, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const Values& values) {
    std::vector<TensorSpec> specs;
    for (const auto& [tensor, value] : values)
      specs.push_back({.name = tensor, .shape = value.shape(), .dtype = value.dtype()});
    write_safetensors(folder + "/" + name, specs,
                      [&](const TensorSpec& spec) { return values.at(spec.name); });
  };
  const PackedLayout layout = contract.layout(0);
  for (const std::uint64_t seed : contract.seeds) {
    Values inputs = evaluation_inputs(layout, initial_state(contract, seed, keyframe_latents(contract)),
                                      text_condition(contract));
    inputs["token_tags"] = layout.token_tags_tensor();
    write(fmt::format("seed_{}.safetensors", seed), inputs);
  }
  const nlohmann::ordered_json facts = {{"contract", nlohmann::json::parse(contract.text)},
                                        {"contract_sha256", contract.sha256},
                                        {"condition_video_rows", layout.condition_video_rows},
                                        {"condition_audio_rows", layout.condition_audio_rows}};
  write_file(folder + "/request.json", facts.dump(2) + "\n");
}

struct Forced {
  std::string recorded, contract = "reduced", engine = "cpu", checkpoint;
};

// Our evaluations at the states that the provider's own velocities lead to: an error of ours stays in its
// step.
void compare_forced(const Forced& options) {
  const GenerationContract contract = read_contract(contract_path(options.contract));
  const Hdf5Reader recorded(options.recorded);
  require(recorded.string_attribute("/", "contract_sha256") == contract.sha256,
          "{}: recorded for another contract than {}", options.recorded, options.contract);
  const std::uint64_t seed = contract.seeds.front();
  const std::string group = fmt::format("seed_{}/velocity/default/", seed);
  const Tensor video = recorded.read(group + "video"), audio = recorded.read(group + "audio");
  const auto of_step = [](const Tensor& all, std::int64_t step) {
    return all.row_range(step, 1).reshaped({all.shape()[1], all.shape()[2]});
  };
  const auto weights = weights_of(contract, options.checkpoint);
  const auto execution = engine_named(options.engine, contract.config);
  ModelForward model(*execution, *weights);
  GenerationState state = initial_state(contract, seed, keyframe_latents(contract));
  const Tensor text = text_condition(contract);
  std::printf("step   video velocity  audio velocity   (relative L2 to the provider's)      seconds\n");
  bool same = true;
  for (std::int64_t step = 0; step < video.shape()[0]; ++step) {
    const PackedLayout layout = contract.layout(step);
    const auto start = std::chrono::steady_clock::now();
    const Values ours = model.evaluate(evaluation_inputs(layout, state, text));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Values provider = {{"video_output", of_step(video, step)}, {"audio_output", of_step(audio, step)}};
    const Comparison of_video = compare(provider.at("video_output"), ours.at("video_output")),
                     of_audio = compare(provider.at("audio_output"), ours.at("audio_output"));
    const bool equal = of_video.same_bits() && of_audio.same_bits();
    std::printf("%4lld %16.3e %15.3e   %-35s %10.2f\n", static_cast<long long>(step), of_video.relative_l2,
                of_audio.relative_l2, equal ? "= provider" : "other bytes", seconds);
    same = same && equal;
    state = euler_step(contract, layout, step, state, provider);
  }
  if (!same) throw CheckFailed();
}

}  // namespace

void add_generate_provider(CLI::App& generate) {
  auto forced = std::make_shared<Forced>();
  auto* teacher =
      generate.add_subcommand("forced", "Every evaluation at the provider's own states, beside its velocity");
  teacher->add_option("recorded", forced->recorded, "written by fixtures/export_generation.py")->required();
  teacher->add_option("--contract", forced->contract, "a name in fixtures/generation, or a file")
      ->capture_default_str();
  teacher->add_option("--engine", forced->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  teacher->add_option("--checkpoint", forced->checkpoint, "folder with the weights that the contract names");
  teacher->callback([=] { compare_forced(*forced); });

  struct Request {
    std::string contract = "reduced", folder;
  };
  auto request = std::make_shared<Request>();
  auto* inputs = generate.add_subcommand("inputs", "Write what the provider's exporter runs on");
  inputs->add_option("--contract", request->contract, "a name in fixtures/generation, or a file")
      ->capture_default_str();
  inputs->add_option("--out", request->folder, "folder")->required();
  inputs->callback([=] { write_request(read_contract(contract_path(request->contract)), request->folder); });
}

}  // namespace h3::cli
