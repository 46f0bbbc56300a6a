// h3 diagnose: how error grows from node to node of a block, and how peaked its attention is.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/replay/diagnosis.h"
#include "harness/report/progress.h"

namespace h3::cli {

void add_diagnose(CLI::App& app) {
  auto* command =
      app.add_subcommand("diagnose", "Growth of error from node to node, and attention head by head");
  command->footer(R"(Examples:
  h3 diagnose --block 0 --layout tiny
  h3 diagnose --block 47 --layout small          synthetic weights with logits in the thousands
  h3 diagnose --block 7 --checkpoint ~/MiniMax-H3/transformer --json
Exit: 0 measured, 2 bad input. h3 replay is what accepts or refuses.)");
  auto request = std::make_shared<ReplayRequest>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("--block", request->block, "transformer block, 0..49")->capture_default_str();
  command->add_option("--layout", request->layout, "tiny, small, medium or 768p-124f")->capture_default_str();
  command->add_option("--engine", request->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  command->add_option("--seed", request->seed, "seed of synthetic weights and inputs")->capture_default_str();
  command->add_option("--checkpoint", request->checkpoint,
                      "folder with real weights instead of synthetic ones");
  command->add_flag("--json", *as_json, "print JSON instead of the table");
  command->callback([=] {
    const Diagnosis found = [&] {
      Progress bar(fmt::format("diagnose {}", request->layout), kReplaySteps, Progress::Unit::steps);
      return diagnose_block(*request,
                            [&](std::int64_t done, const std::string& what) { bar.step(done, what); });
    }();
    std::fputs((*as_json ? to_json(found).dump(2) + "\n" : to_table(found)).c_str(), stdout);
  });
}

}  // namespace h3::cli
