// h3 generate: a seed's trajectory, evaluation after evaluation, killed and resumed; and what two of them
// say.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "fixtures/path.h"
#include "harness/cli/commands.h"
#include "harness/compare.h"
#include "harness/generation_run.h"
#include "harness/model_forward.h"
#include "harness/pictures.h"
#include "harness/progress.h"
#include "harness/stand_in_decoder.h"
#include "harness/trajectory.h"
#include "model/atomic_file.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace h3::cli {
namespace {

namespace fs = std::filesystem;

// "reduced" is fixtures/generation/reduced.json; anything with a dot or a slash is a file.
std::string contract_path(const std::string& name) {
  if (name.find_first_of("./") != std::string::npos) return name;
  return fixture_path("generation/" + name + ".json").string();
}

// A run's folder means its trajectory.
std::string trajectory_path(const std::string& path) {
  return fs::is_directory(path) ? trajectory_of_run(path) : path;
}

struct Work {
  std::string folder, checkpoint;
  std::string receipt;  // of gate fullmodel; empty: not asked for
  RunLimits limits;
};

void require_receipt(const std::string& path, const GenerationContract& contract) {
  const auto receipt = read_json(path);
  const auto says = [&](const char* field) { return receipt.value(field, std::string()); };
  require(says("gate") == "fullmodel" && says("verdict") == "closed",
          "{}: not the receipt of a closed gate fullmodel", path);
  require(says("config") == contract.config_name && says("weights") == contract.weights,
          "{}: of config {} and weights {}, the contract is for {} and {}", path, says("config"),
          says("weights"), contract.config_name, contract.weights);
}

std::unique_ptr<Weights> weights_of(const GenerationContract& contract, const std::string& checkpoint) {
  auto weights = open_weights(checkpoint, contract.weights_seed, contract.config);
  require(weights->identity() == contract.weights, "weights {}: the contract is for {}", weights->identity(),
          contract.weights);
  require(weights->config() == contract.config, "{}: weights of another model than config {}", checkpoint,
          contract.config_name);
  return weights;
}

// Goes on with a run until it is sealed or its share of evaluations is done.
void work_on(const Work& work) {
  const GenerationContract contract = contract_of_run(work.folder);
  if (!work.receipt.empty()) require_receipt(work.receipt, contract);
  const RunRecord record = record_of_run(work.folder);
  const std::string engine = record.identity.engine.substr(0, record.identity.engine.find(' '));
  const auto weights = weights_of(contract, work.checkpoint);
  const auto execution = engine_named(engine, contract.config);
  ModelForward model(*execution, *weights);
  const RunOutcome outcome = [&] {
    Progress bar("generate", contract.evaluations(), Progress::Unit::steps);
    return continue_run(
        work.folder, run_identity(contract, record.identity.seed, engine), executable_sha256(),
        [&](const Values& inputs) { return model.evaluate(inputs); }, work.limits,
        [&](std::int64_t done, const std::string& next) { bar.step(done, next); });
  }();
  std::printf("%s: seed %llu, %lld steps replayed, %lld evaluated, %lld of %lld there\n", work.folder.c_str(),
              static_cast<unsigned long long>(record.identity.seed), static_cast<long long>(outcome.replayed),
              static_cast<long long>(outcome.evaluated),
              static_cast<long long>(outcome.replayed + outcome.evaluated),
              static_cast<long long>(contract.evaluations()));
  if (outcome.complete)
    std::printf("%s: sealed, %s\n", trajectory_of_run(work.folder).c_str(),
                Trajectory(trajectory_of_run(work.folder)).seal().c_str());
}

// What fixtures/export_generation.py reads: the request's structure, and the rows that each seed begins with.
void write_request(const GenerationContract& contract, const std::string& folder) {
  fs::create_directories(folder);
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

void compare_trajectories(const std::string& a, const std::string& b, bool as_json) {
  const Trajectory expected(trajectory_path(a)), actual(trajectory_path(b));
  const DriftReport report = drift_report(expected, actual);
  if (as_json) {
    std::printf("%s\n", to_json(report).dump(2).c_str());
  } else {
    std::printf("step   video velocity  audio velocity      video rows      audio rows   (relative L2)\n");
    for (const StepDistance& step : report.steps)
      std::printf("%4lld %16.3e %15.3e %15.3e %15.3e\n", static_cast<long long>(step.evaluation),
                  step.video_velocity, step.audio_velocity, step.video_rows, step.audio_rows);
    std::printf("first_drift: %s\n", report.first ? report.first->to_string().c_str() : "none");
  }
  if (!report.same()) throw CheckFailed();
}

struct Decoded {
  std::string a, b;              // trajectories
  std::string media_a, media_b;  // decoded elsewhere; empty: by the stand-in
  std::string pictures;          // folder
  bool json = false;
};

void compare_decoded(const Decoded& options) {
  const Trajectory expected(trajectory_path(options.a)), actual(trajectory_path(options.b));
  require_same_start(expected, actual);
  const auto decoded = [](const Trajectory& trajectory, const std::string& file) {
    if (!file.empty()) return read_media(file);
    return decode_stand_in(trajectory.contract(), state_of(trajectory.step(trajectory.evaluations() - 1)));
  };
  const Media media_a = decoded(expected, options.media_a), media_b = decoded(actual, options.media_b);
  const MediaComparison comparison = compare_media(media_a, media_b);
  const MediaBounds bounds = expected.contract().bounds;
  const auto verdicts = judge(bounds, comparison);
  if (!options.pictures.empty())
    write_pictures(options.pictures, bounds, media_a, media_b, comparison, drift_report(expected, actual));
  if (options.json) {
    std::printf("%s\n", to_json(comparison, verdicts).dump(2).c_str());
  } else {
    std::printf("decoded by            %s\n", comparison.decoder.c_str());
    for (const BoundVerdict& verdict : verdicts)
      std::printf("%-20s %10.4g   bound %g: %s\n", verdict.metric.c_str(), verdict.measured, verdict.limit,
                  verdict.accepted ? "accepted" : "refused");
    std::printf("%-20s %10.4g   dB, reported only\n", "spectral_distance", comparison.spectral_distance_db);
  }
  if (!std::ranges::all_of(verdicts, &BoundVerdict::accepted)) throw CheckFailed();
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command =
      app.add_subcommand("generate", "A seed's trajectory: run, resume, verify, compare, media, adopt");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 generate run --contract reduced --seed 42 --out run42           49 evaluations of the reduced model on this CPU
  h3 generate run --contract preflight-6 --seed 42 --out p --engine cuda --evaluations 2
  h3 generate resume p --verify-last-step                            goes on where it stopped
  h3 generate verify run42/trajectory.h5                             everything but the velocities, derived again
  h3 generate compare run42 other42                                  first step, kind and modality that differ
  h3 generate media run42 other42                                    decoded, against the contract's bounds
  h3 generate adopt run42                                            after a rebuild from the same source trees
Exit: 0 ok, 1 trajectories differ or a bound refuses, 2 bad input.)");

  struct Start : Work {
    std::string contract = "reduced", engine = "cpu";
    std::uint64_t seed = 42;
  };
  auto start = std::make_shared<Start>();
  auto* run = command->add_subcommand("run", "Begin a run in a folder of its own");
  run->add_option("--contract", start->contract, "a name in fixtures/generation, or a file")
      ->capture_default_str();
  run->add_option("--seed", start->seed, "one of the contract's seeds")->capture_default_str();
  run->add_option("--out", start->folder, "folder")->required();
  run->add_option("--engine", start->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  run->add_option("--checkpoint", start->checkpoint, "folder with the weights that the contract names");
  run->add_option("--evaluations", start->limits.evaluations, "stop after this many");
  run->add_option("--fullmodel-receipt", start->receipt,
                  "begin only with this receipt of a closed gate fullmodel");
  run->callback([=] {
    const GenerationContract contract = read_contract(contract_path(start->contract));
    if (!start->receipt.empty()) require_receipt(start->receipt, contract);
    engine_named(start->engine, contract.config);  // refuses before there is a folder
    begin_run(start->folder, contract, run_identity(contract, start->seed, start->engine),
              executable_sha256());
    work_on(*start);
  });

  auto work = std::make_shared<Work>();
  auto* resume = command->add_subcommand("resume", "Replay what is saved, evaluate what is left, seal");
  resume->add_option("folder", work->folder, "folder of the run")->required();
  resume->add_option("--checkpoint", work->checkpoint, "folder with the weights that the contract names");
  resume->add_option("--evaluations", work->limits.evaluations, "stop after this many");
  resume->add_option("--fullmodel-receipt", work->receipt, "likewise: go on only with it");
  resume->add_flag("--verify-last-step", work->limits.verify_last_step,
                   "evaluate the last saved step again and compare every byte");
  resume->callback([=] { work_on(*work); });

  auto file = std::make_shared<std::string>();
  auto* verify =
      command->add_subcommand("verify", "Derive everything but the velocities again, on any machine");
  verify->add_option("trajectory", *file, "trajectory.h5, or a run's folder")->required();
  verify->callback([=] {
    const Trajectory trajectory(trajectory_path(*file));
    verify_trajectory(trajectory);
    std::printf(
        "%s: seed %llu, %lld steps, engine %s: noise, inputs, Euler steps, chain and seal as recorded\n",
        trajectory.path().c_str(), static_cast<unsigned long long>(trajectory.identity().seed),
        static_cast<long long>(trajectory.evaluations()), trajectory.identity().engine.c_str());
  });

  struct Pair {
    std::string a, b;
    bool json = false;
  };
  auto pair = std::make_shared<Pair>();
  auto* compare = command->add_subcommand("compare", "Where two trajectories of one contract and seed part");
  compare->add_option("expected", pair->a, "trajectory.h5, or a run's folder")->required();
  compare->add_option("actual", pair->b, "trajectory.h5, or a run's folder")->required();
  compare->add_flag("--json", pair->json, "print the report as JSON");
  compare->callback([=] { compare_trajectories(pair->a, pair->b, pair->json); });

  auto decoded = std::make_shared<Decoded>();
  auto* media = command->add_subcommand("media", "Pictures and sound of two trajectories against the bounds");
  media->add_option("expected", decoded->a, "trajectory.h5, or a run's folder")->required();
  media->add_option("actual", decoded->b, "trajectory.h5, or a run's folder")->required();
  auto* first =
      media->add_option("--expected-media", decoded->media_a, "decoded elsewhere (harness/media.h)");
  media->add_option("--actual-media", decoded->media_b, "likewise")->needs(first);
  media->add_flag("--json", decoded->json, "print the report as JSON, with a number per frame");
  media->add_option("--pictures", decoded->pictures,
                    "write frames.png, frames.svg and steps.svg into this folder");
  media->callback([=] { compare_decoded(*decoded); });

  auto forced = std::make_shared<Forced>();
  auto* teacher =
      command->add_subcommand("forced", "Every evaluation at the provider's own states, beside its velocity");
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
  auto* inputs = command->add_subcommand("inputs", "Write what the provider's exporter runs on");
  inputs->add_option("--contract", request->contract, "a name in fixtures/generation, or a file")
      ->capture_default_str();
  inputs->add_option("--out", request->folder, "folder")->required();
  inputs->callback([=] { write_request(read_contract(contract_path(request->contract)), request->folder); });

  auto adopted = std::make_shared<std::string>();
  auto* adopt = command->add_subcommand("adopt", "Hand a run to this build, made from the same source trees");
  adopt->add_option("folder", *adopted, "folder of the run")->required();
  adopt->callback([=] {
    const GenerationContract contract = contract_of_run(*adopted);
    const RunIdentity identity = record_of_run(*adopted).identity;
    const std::string engine = identity.engine.substr(0, identity.engine.find(' '));
    adopt_run(*adopted, run_identity(contract, identity.seed, engine), executable_sha256());
    std::printf("%s: adopted\n", adopted->c_str());
  });
}

}  // namespace h3::cli
