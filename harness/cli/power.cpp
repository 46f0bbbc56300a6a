// h3 power: what the suite would have caught.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/power/power_picture.h"
#include "harness/power/report_power.h"
#include "harness/report/progress.h"
#include "model/atomic_file.h"

namespace h3::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> controls;
  std::string layout = "tiny", engine = "cpu", picture;
  std::int64_t repeats = 200;
  bool json = false;
};

// One part of the answer; `passed` is the answer itself.
struct Section {
  Json json;
  std::string table;
  bool passed = false;
};

Section controls_section(const Options& options) {
  std::vector<const Control*> chosen;
  for (const auto& name : options.controls) chosen.push_back(&control_named(name));
  if (chosen.empty())
    for (const auto& control : controls()) chosen.push_back(&control);
  ControlsReport report;
  Progress bar("controls", std::int64_t(chosen.size()), Progress::Unit::steps);
  for (const Control* control : chosen) {
    bar.step(std::int64_t(report.entries.size()), control->name);
    report.entries.push_back({control, {}});
    if (!control->held_by) report.entries.back().result = run_control(*control);
  }
  return {to_json(report), to_table(report, isatty(STDOUT_FILENO)), report.all_detected()};
}

Section orders_section(const Options& options) {
  const auto found = order_certificates(*engine_named(options.engine, order_config()));
  return {to_json(found), to_table(found, isatty(STDOUT_FILENO)),
          std::ranges::all_of(found, &OrderCertificate::as_declared)};
}

Section alarms_section(const Options& options) {
  std::vector<AlarmCount> counts;
  for (const Honest variant : {Honest::unchanged, Honest::other_order, Honest::rounded_inputs}) {
    Progress bar(fmt::format("alarms {}", name_of(variant)), options.repeats, Progress::Unit::steps);
    counts.push_back(
        count_alarms(variant, options.repeats, [&](std::int64_t done) { bar.step(done, "repeats"); }));
  }
  // Other inputs are another problem: how often they raise an alarm is measured, and does not decide.
  return {to_json(counts), to_table(counts), std::ranges::all_of(counts, [](const AlarmCount& count) {
            return count.alarms == 0 || count.variant == Honest::rounded_inputs;
          })};
}

Section floors_section(const Options& options) {
  Progress bar("floors", kReplaySteps, Progress::Unit::steps);
  const auto floors =
      block_floors(options.layout, [&](std::int64_t done, const std::string& next) { bar.step(done, next); });
  if (!options.picture.empty())
    write_file(options.picture,
               to_svg(floors, fmt::format("Detection floors of block 0, layout {}", options.layout)));
  return {to_json(floors), to_table(floors), blind_spots(floors).empty()};
}

// What h3_mutants has measured; a host case says whether it still stands.
Section mutants_section(const Options&) {
  Section section{Json::array(), "", true};
  for (const char* engine : {"cpu", "cuda"}) {
    const MutantCatalogue catalogue = load_mutants(source_tree(), engine);
    if (!has_mutant_record(source_tree(), engine)) {
      section.table += fmt::format("mutants, engine {}: none of {} measured yet (h3_mutants --engine {})\n",
                                   engine, catalogue.mutants.size(), engine);
      continue;
    }
    const MutantRecord record = load_mutant_record(source_tree(), engine);
    section.json.push_back(to_json(record, catalogue));
    section.table += to_table(record, catalogue);
  }
  return section;
}

struct Part {
  const char* name;
  const char* what;
  Section (*run)(const Options& options);
};
constexpr Part kParts[] = {
    {"controls", "Deliberate faults: found in their class at their node, beside an unperturbed twin",
     controls_section},
    {"orders", "The order of every sum, found with huge terms that cancel", orders_section},
    {"mutants", "Faults in the kernels' sources: who kills them", mutants_section},
    {"alarms", "How often block 0, narrow, would refuse an honest run", alarms_section},
    {"floors", "The smallest fault that each bound of block 0 rejects", floors_section},
};

void print(const Options& options, const Json& json, const std::string& table) {
  std::fputs((options.json ? json.dump(2) + "\n" : table).c_str(), stdout);
}

void run_part(const Options& options, const Part& part) {
  const Section section = part.run(options);
  print(options, section.json, section.table);
  if (!section.passed) throw CheckFailed();
}

void run_all(const Options& options) {
  Json json = Json::object();
  std::string table;
  bool passed = true;
  for (const Part& part : kParts) {
    const Section section = part.run(options);
    json[part.name] = section.json;
    table += fmt::format("== {}: {}\n\n{}\n", part.name, part.what, section.table);
    passed = passed && section.passed;
  }
  print(options, json, table);
  if (!passed) throw CheckFailed();
}

}  // namespace

void add_power(CLI::App& app) {
  auto* command = app.add_subcommand("power", "What the gates detect, measured");
  command->footer(R"(Examples:
  h3 power                                     all of it, a few minutes
  h3 power controls                            every control beside its unperturbed twin
  h3 power controls rope_width_wrong --json
  h3 power orders --engine cuda                in which order each sum is added up
  h3 power alarms --repeats 20                 how often an honest run would be refused
  h3 power floors --picture floors.svg         what each bound of block 0 would still accept
Exit: 0 all of it was detected, 1 something was not, 2 bad input.)");
  auto options = std::make_shared<Options>();
  const auto add_json = [&](CLI::App* to) {
    to->add_flag("--json", options->json, "print JSON instead of tables");
  };
  add_json(command);
  for (const Part& part : kParts) {
    auto* one = command->add_subcommand(part.name, part.what);
    add_json(one);
    const std::string name = part.name;
    if (name == "controls") one->add_option("names", options->controls, "these controls only");
    if (name == "orders")
      one->add_option("--engine", options->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
    if (name == "alarms")
      one->add_option("--repeats", options->repeats, "of every kind of honest run")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
    if (name == "floors") {
      one->add_option("--layout", options->layout, "a layout with recorded bounds")->capture_default_str();
      one->add_option("--picture", options->picture, "write an SVG picture here");
    }
    one->callback([options, &part] { run_part(*options, part); });
  }
  command->callback([=] {
    if (command->get_subcommands().empty()) run_all(*options);
  });
}

}  // namespace h3::cli
