// h3 power: what the suite would have caught.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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

void run_floors(const Options& options, const std::string& layout) {
  const std::vector<TensorFloors> floors = [&] {
    Progress bar("floors", kReplaySteps, Progress::Unit::steps);
    return block_floors(layout, [&](std::int64_t done, const std::string& next) { bar.step(done, next); });
  }();
  print(options, to_json(floors), to_table(floors));
  if (!blind_spots(floors).empty()) throw CheckFailed();
}

void run_orders(const Options& options, const std::string& engine) {
  const auto certificates = order_certificates(*engine_named(engine, order_config()));
  print(options, to_json(certificates), to_table(certificates, isatty(STDOUT_FILENO)));
  if (!std::ranges::all_of(certificates, &OrderCertificate::as_declared)) throw CheckFailed();
}

}  // namespace

void add_power(CLI::App& app) {
  auto* command = app.add_subcommand("power", "What the gates detect, measured");
  command->require_subcommand(1);
  command->footer(R"(Examples:
  h3 power controls                          every control beside its unperturbed twin
  h3 power controls rope_width_wrong --json
  h3 power floors                            what each bound of block 0 would still accept
  h3 power orders --engine cuda              in which order each sum is added up
Exit: 0 all of it was detected, 1 something was not, 2 bad input.)");
  auto options = std::make_shared<Options>();

  auto* all =
      command->add_subcommand("controls", "Deliberate faults: detected, in their class, at their node");
  all->add_option("names", options->names, "these controls only");
  all->add_flag("--json", options->json, "print JSON instead of the table");
  all->callback([=] { run_controls(*options); });

  auto layout = std::make_shared<std::string>("tiny");
  auto* floors = command->add_subcommand("floors", "The smallest fault that each bound of block 0 rejects");
  floors->add_option("--layout", *layout, "a layout with recorded bounds, forward and backward")
      ->capture_default_str();
  floors->add_flag("--json", options->json, "print JSON instead of the table");
  auto engine = std::make_shared<std::string>("cpu");
  auto* orders =
      command->add_subcommand("orders", "The order of every sum, found with huge terms that cancel");
  orders->add_option("--engine", *engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  orders->add_flag("--json", options->json, "print JSON instead of the table");
  orders->callback([=] { run_orders(*options, *engine); });

  floors->callback([=] { run_floors(*options, *layout); });
}

}  // namespace h3::cli
