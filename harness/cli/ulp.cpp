// h3 ulp: how far a row is from its golden over a sweep of inputs, as a histogram.
#include "harness/replay/ulp.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"

namespace h3::cli {
namespace {

void print_rows() {
  for (const UlpRow& row : ulp_rows()) {
    std::string dtypes;
    for (const DType dtype : row.dtypes) dtypes += fmt::format("{} ", name_of(dtype));
    fmt::print("{:<20} {:<26} {:<16} {}\n", row.name, row.rfc_row, dtypes, row.inputs);
  }
}

}  // namespace

void add_ulp(CLI::App& app) {
  auto* command = app.add_subcommand("ulp", "Sweep a row against its golden: histogram of distances in ulp");
  command->footer(R"(Examples:
  h3 ulp --list                          rows, their types and what is swept
  h3 ulp swiglu                          every BF16 gate
  h3 ulp ode_step --dtype fp16 --json
Exit: 0 measured, 2 bad input. A measurement decides nothing: bounds are in the gates.)");
  auto request = std::make_shared<UlpRequest>();
  auto list = std::make_shared<bool>(false), as_json = std::make_shared<bool>(false);
  command->add_option("row", request->row, "a row that --list names");
  command->add_option("--dtype", request->dtype, "one of the row's types; its first when left out");
  command->add_option("--engine", request->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  command->add_option("--seed", request->seed, "seed of random inputs")->capture_default_str();
  command->add_flag("--list", *list, "name the rows");
  command->add_flag("--json", *as_json, "print JSON instead of the table");
  command->callback([=] {
    if (*list) return print_rows();
    require(!request->row.empty(), "no row was named (--list names them)");
    const UlpReport report = ulp_sweep(*request);
    std::fputs((*as_json ? to_json(report).dump(2) + "\n" : to_table(report)).c_str(), stdout);
  });
}

}  // namespace h3::cli
