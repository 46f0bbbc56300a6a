// h3 replay: a block node by node, against the golden and against what the provider recorded.
#include "harness/replay/replay.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/capsule/drift_capsule.h"
#include "harness/cli/commands.h"
#include "harness/replay/report.h"
#include "harness/report/progress.h"
#include "model/atomic_file.h"

namespace h3::cli {
namespace {

ReplayProgress steps_of(Progress& bar) {
  return [&](std::int64_t done, const std::string& next) { bar.step(done, next); };
}

}  // namespace

void add_replay(CLI::App& app) {
  auto* command =
      app.add_subcommand("replay", "Replay a transformer block node by node in the strict arithmetic");
  command->footer(R"(Examples:
  h3 replay --block 0 --layout tiny                    17 nodes, error, verdict against the provider, first drift
  h3 replay --layout small --repeat --report r.json    every node twice; the full report as JSON
  h3 replay --layout medium --engine cuda              the same on this machine's Hopper GPU
  h3 replay --layout tiny --backward                   and the 31 gradients of its backward, a second table
  h3 replay --layout tiny --engine ./libmine.so --capsule found    the first drift as a file that replays anywhere
  h3 replay --layout tiny --backward --engine ./libmine.so         its gradients, too, where it computes them
  h3 replay --block 7 --checkpoint ~/MiniMax-H3/transformer
Exit: 0 accepted, 1 a drift, a bound or a binding failed, 2 bad input.)");
  auto request = std::make_shared<ReplayRequest>();
  auto report_file = std::make_shared<std::string>();
  auto capsules = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  auto no_golden = std::make_shared<bool>(false);
  auto no_batch = std::make_shared<bool>(false);
  auto with_backward = std::make_shared<bool>(false);
  command->add_option("--block", request->block, "transformer block, 0..49")->capture_default_str();
  command->add_option("--layout", request->layout, "tiny, small, medium or 768p-124f")->capture_default_str();
  command->add_option("--engine", request->engine, "cpu, cuda on a Hopper GPU, or a candidate's library")
      ->capture_default_str();
  command->add_option("--seed", request->seed, "seed of synthetic weights and inputs")->capture_default_str();
  command->add_option("--checkpoint", request->checkpoint,
                      "folder with real weights instead of synthetic ones");
  command->add_flag("--backward", *with_backward, "replay the backward, too: 31 gradients");
  command->add_flag("--repeat", request->repeat, "run every node twice and compare all bytes");
  command->add_flag("--permute-rows", request->permute_rows,
                    "replay with permuted packed rows; none may change");
  command->add_flag("--no-batch-rows", *no_batch, "leave out rows alone and rows inside another sequence");
  command->add_flag("--no-golden", *no_golden, "leave out the FP64 golden");
  command->add_option("--report", *report_file, "write report.json here");
  command->add_option("--capsule", *capsules,
                      "folder: write the first node that leaves its strict row as a capsule");
  command->add_flag("--json", *as_json, "print the report as JSON instead of the table");
  command->callback([=] {
    request->golden = !*no_golden;
    request->batch_rows = !*no_batch;
    std::optional<FirstDrift> drift;
    if (!capsules->empty()) drift.emplace(*request);
    const ReplayReport report = [&] {
      Progress bar(fmt::format("replay {}", request->layout), kReplaySteps, Progress::Unit::steps);
      return replay_block(*request, steps_of(bar), drift ? drift->observer() : ReplayObserver());
    }();
    std::optional<BackwardReport> backward;
    if (*with_backward) {
      Progress bar(fmt::format("backward {}", request->layout), kBackwardSteps, Progress::Unit::steps);
      backward = replay_backward(*request, steps_of(bar));
      if (drift) drift->look_at_backward(steps_of(bar));
    }
    const std::string json = (backward ? to_json(report, *backward) : to_json(report)).dump(2) + "\n";
    if (!report_file->empty()) write_file(*report_file, json);
    const bool colour = isatty(STDOUT_FILENO);
    std::string tables = to_table(report, colour);
    if (backward) tables += "\n" + to_table(*backward, colour);
    std::fputs((*as_json ? json : tables).c_str(), stdout);
    if (drift) {
      std::fflush(stdout);  // what the engine does on smaller operands cannot take the report away
      const auto path = drift->write(*capsules);
      std::fprintf(*as_json ? stderr : stdout, "capsule               %s\n",
                   path ? path->c_str() : "none: every node has the bytes of its strict row");
    }
    if (!report.accepted() || (backward && !backward->accepted())) throw CheckFailed();
  });
}

}  // namespace h3::cli
