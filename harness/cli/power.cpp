// h3 power: what the suite would have caught.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/controls/control.h"
#include "harness/progress.h"
#include "harness/report_power.h"

namespace h3::cli {
namespace {

struct Options {
  std::vector<std::string> names;
  bool json = false;
};

void print(const Options& options, const nlohmann::ordered_json& json, const std::string& table) {
  std::fputs((options.json ? json.dump(2) + "\n" : table).c_str(), stdout);
}

void run_controls(const Options& options) {
  std::vector<const Control*> chosen;
  for (const auto& name : options.names) chosen.push_back(&control_named(name));
  if (chosen.empty())
    for (const auto& control : controls()) chosen.push_back(&control);
  ControlsReport report;
  {
    Progress bar("controls", std::int64_t(chosen.size()), Progress::Unit::steps);
    for (const Control* control : chosen) {
      bar.step(std::int64_t(report.entries.size()), control->name);
      report.entries.push_back({control, {}});
      if (!control->held_by) report.entries.back().result = run_control(*control);
    }
  }
  print(options, to_json(report), to_table(report, isatty(STDOUT_FILENO)));
  if (!report.all_detected()) throw CheckFailed();
}

}  // namespace

void add_power(CLI::App& app) {
  auto* command = app.add_subcommand("power", "What the gates detect, measured");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 power controls                          every control beside its unperturbed twin
  h3 power controls rope_width_wrong --json
Exit: 0 all of it was detected, 1 something was not, 2 bad input.)");
  auto options = std::make_shared<Options>();

  auto* all =
      command->add_subcommand("controls", "Deliberate faults: detected, in their class, at their node");
  all->add_option("names", options->names, "these controls only");
  all->add_flag("--json", options->json, "print JSON instead of the table");
  all->callback([=] { run_controls(*options); });
}

}  // namespace h3::cli
