// h3 generate: a seed's trajectory, evaluation after evaluation, killed and resumed. What two of them say is
// in generate_comparisons.cpp, what the provider is asked in generate_provider.cpp.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/cli/generate_parts.h"
#include "harness/generation/generation_run.h"
#include "harness/generation/model_forward.h"
#include "harness/generation/trajectory.h"
#include "harness/generation/trajectory_excerpt.h"
#include "harness/report/progress.h"
#include "harness/report/this_process.h"
#include "model/json.h"

namespace h3::cli {
namespace {

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

}  // namespace

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand(
      "generate", "A seed's trajectory: run, resume, verify, excerpt, compare, media, adopt");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 generate run --contract reduced --seed 42 --out run42           49 evaluations of the reduced model on this CPU
  h3 generate run --contract preflight-6 --seed 42 --out p --engine cuda --evaluations 2
  h3 generate resume p --verify-last-step                            goes on where it stopped
  h3 generate verify run42/trajectory.h5                             everything but the velocities, derived again
  h3 generate excerpt run42 --out excerpt.h5                         a megabyte that verify takes, too
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
    engine_named(start->engine, contract.config);  // what refuses does so before there is a folder
    weights_of(contract, start->checkpoint);
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
  verify->add_option("trajectory", *file, "trajectory.h5, a run's folder, or an excerpt")->required();
  verify->callback([=] {
    if (const std::string path = trajectory_path(*file); is_excerpt(path)) {
      const VerifiedExcerpt excerpt = verify_excerpt(path);
      std::printf(
          "%s: seed %llu, %lld steps, engine %s: noise, chain, seal and the Euler steps of the %lld rows "
          "that it draws as "
          "recorded\n",
          path.c_str(), static_cast<unsigned long long>(excerpt.identity.seed),
          static_cast<long long>(excerpt.evaluations), excerpt.identity.engine.c_str(),
          static_cast<long long>(excerpt.drawn));
      return;
    }
    const Trajectory trajectory(trajectory_path(*file));
    verify_trajectory(trajectory);
    std::printf(
        "%s: seed %llu, %lld steps, engine %s: noise, inputs, Euler steps, chain and seal as recorded\n",
        trajectory.path().c_str(), static_cast<unsigned long long>(trajectory.identity().seed),
        static_cast<long long>(trajectory.evaluations()), trajectory.identity().engine.c_str());
  });

  struct Excerpt {
    std::string from, to;
    std::int64_t rows = kDrawnRows;
  };
  auto part = std::make_shared<Excerpt>();
  auto* excerpt =
      command->add_subcommand("excerpt", "A few rows of every step, drawn by the seal, and the whole chain");
  excerpt->add_option("trajectory", part->from, "trajectory.h5, or a run's folder")->required();
  excerpt->add_option("--out", part->to, "file")->required();
  excerpt->add_option("--rows", part->rows, "of each modality")->capture_default_str();
  excerpt->callback([=] {
    write_excerpt(part->to, Trajectory(trajectory_path(part->from)), part->rows);
    std::printf("%s: written\n", part->to.c_str());
  });

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

  add_generate_comparisons(*command);
  add_generate_provider(*command);
}

}  // namespace h3::cli
