// h3 capsule: one drift, shown again from its file alone.
#include "harness/capsule/capsule.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"

namespace h3::cli {

void add_capsule(CLI::App& app) {
  auto* command = app.add_subcommand("capsule", "The smallest reproducer of a drift: replay it anywhere");
  command->require_subcommand(1);
  auto* replay = command->add_subcommand(
      "replay", "Recompute the expected words with the CPU twin and show what was found against them");
  replay->footer(
      R"(A capsule is written by 'h3 replay --capsule DIR' and 'h3 dump check --capsule DIR' where they find a drift.
Examples:
  h3 capsule replay transformer_blocks.0.residual_attn.h5
  h3 capsule replay transformer_blocks.0.residual_attn.h5 --engine ./libmine.so   is it gone?
Exit: 0 no drift, 1 a drift, or other expected words than the capsule has, 2 bad input.)");
  auto file = std::make_shared<std::string>();
  auto engine = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  replay->add_option("FILE", *file, "the capsule")->required();
  replay->add_option("--engine", *engine,
                     "run this engine on its operands now: cpu, cuda, or a candidate's library");
  replay->add_flag("--json", *as_json, "print JSON instead of text");
  replay->callback([=] {
    const Capsule capsule = read_capsule(*file);
    const CapsuleReplay result = replay_capsule(capsule, *engine);
    std::fputs(
        (*as_json ? to_json(capsule, result).dump(2) + "\n" : to_text(capsule, result, isatty(STDOUT_FILENO)))
            .c_str(),
        stdout);
    if (result.drift || !result.as_recorded) throw CheckFailed();
  });
}

}  // namespace h3::cli
