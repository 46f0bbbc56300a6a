// h3 gemm: the strict projections beside the vendor's, bytes and time, on a Hopper GPU.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/replay/product_race.h"

namespace h3::cli {

void add_gemm(CLI::App& app) {
  auto* command =
      app.add_subcommand("gemm", "Projections on a GPU: ours, every tile of ours, cuBLAS, cuBLASLt");
  command->footer(R"(Examples:
  h3 gemm                         q, o, gate_up, down and adaln at 3,160 rows
  h3 gemm --rows 38718 --json
"time / ours" above 1: ours is faster. Exit: 0 measured, 2 bad input or no Hopper GPU.)");
  auto request = std::make_shared<RaceRequest>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("--rows", request->rows, "packed rows; adaln has at most 3, its timesteps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rounds", request->rounds, "timed rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", request->seed, "seed of weights and inputs")->capture_default_str();
  command->add_flag("--json", *as_json, "print JSON instead of the table");
  command->callback([=] {
    const RaceReport report = race_products(*request);
    std::fputs((*as_json ? to_json(report).dump(2) + "\n" : to_table(report)).c_str(), stdout);
  });
}

}  // namespace h3::cli
