// h3 dump: what another runtime computed in a block, against the strict rows.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/capsule/dump_check.h"
#include "harness/cli/commands.h"
#include "harness/report/progress.h"

namespace h3::cli {
namespace {

void add_block_options(CLI::App& command, DumpRequest& request) {
  command.add_option("--config", request.config, "released, reduced or narrow")->capture_default_str();
  command.add_option("--block", request.block, "transformer block")->capture_default_str();
  command.add_flag("--refiner", request.refiner, "--block counts the refiner's blocks");
  command.add_option("--checkpoint", request.checkpoint,
                     "folder with real weights instead of synthetic ones");
  command.add_option("--seed", request.seed, "seed of synthetic weights and inputs")->capture_default_str();
}

}  // namespace

void add_dump(CLI::App& app) {
  auto* command =
      app.add_subcommand("dump", "Tensors captured from any other runtime: first drift, class, capsule");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 dump write --layout tiny --out ours.safetensors          what a dump looks like: 22 tensors of block 0
  h3 dump check theirs.safetensors --layout tiny --capsule found
  h3 dump check theirs.h5 --names names.json --calibrated     other names; bounds decide
fixtures/capture_dump.py captures one from diffusers with hooks.)");

  auto request = std::make_shared<DumpRequest>();
  auto* check = command->add_subcommand(
      "check", "Every node from the dump's own inputs, and the block as a chain; first drift and its class");
  check->footer(
      R"(DUMP is a safetensors file, or HDF5 as fixtures/store.py writes it. A names file binds its tensors to our values:
  {"schema": "h3.dump_names.v1", "names": {"q_proj": "blocks.0.attn.q"}, "absent": ["norm1", "norm2"]}
Full depth: h3 fullmodel. Trajectories: h3 generate compare.
Exit: 0 no drift, 1 a drift, 2 bad input.)");
  auto calibrated = std::make_shared<bool>(false);
  auto no_golden = std::make_shared<bool>(false);
  auto as_json = std::make_shared<bool>(false);
  check->add_option("DUMP", request->dump, "safetensors or HDF5")->required();
  check->add_option("--names", request->names, "JSON that binds its tensors to our values");
  check->add_option("--layout", request->layout,
                    "tiny, small, medium or 768p-124f; default: what the dump says, or its own");
  add_block_options(*check, *request);
  check->add_flag("--calibrated", *calibrated, "accept what is inside the bounds, whatever its bytes");
  check->add_flag("--no-golden", *no_golden, "leave out the FP64 golden and the bounds");
  check->add_option("--capsule", request->capsules, "folder: write the first isolated drift as a capsule");
  check->add_flag("--json", *as_json, "print JSON instead of the tables");
  check->callback([=] {
    request->golden = !*no_golden;
    request->strictness = *calibrated ? Strictness::calibrated : Strictness::strict;
    const DumpReport report = [&] {
      Progress bar("dump", 2 * kReplaySteps, Progress::Unit::steps);
      return check_dump(*request, [&](std::int64_t done, const std::string& next) { bar.step(done, next); });
    }();
    std::fputs((*as_json ? to_json(report).dump(2) + "\n" : to_table(report, isatty(STDOUT_FILENO))).c_str(),
               stdout);
    if (!report.accepted()) throw CheckFailed();
  });

  auto ours = std::make_shared<DumpRequest>();
  auto engine = std::make_shared<std::string>("cpu");
  auto file = std::make_shared<std::string>();
  auto backward = std::make_shared<bool>(false);
  ours->layout = "tiny";
  auto* write = command->add_subcommand("write", "Write our own dump of a block, under our names");
  write->add_option("--layout", ours->layout, "tiny, small, medium or 768p-124f")->capture_default_str();
  write->add_option("--engine", *engine, "cpu, cuda on a Hopper GPU, or a candidate's library")
      ->capture_default_str();
  write->add_option("--out", *file, "safetensors file")->required();
  write->add_flag("--backward", *backward, "gradients, too");
  add_block_options(*write, *ours);
  write->callback([=] { write_dump(*ours, *engine, *backward, *file); });
}

}  // namespace h3::cli
