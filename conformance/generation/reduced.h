// The reduced model's generation as the cases of this gate see it: contracts, runs in this process and runs
// of the command line in a process that can be killed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/path.h"
#include "harness/generation/generation_run.h"
#include "harness/generation/model_forward.h"
#include "harness/generation/trajectory.h"
#include "model/digest.h"
#include "model/named_configs.h"

namespace h3 {

inline std::string contract_file(const std::string& name) {
  return fixture_path("generation/" + name + ".json").string();
}

inline std::string with(std::string text, const std::string& old, const std::string& replacement) {
  const auto place = text.find(old);
  require(place != std::string::npos, "the contract has no {}", old);
  return text.replace(place, old.size(), replacement);
}

// The reduced contract with fewer evaluations, for cases that end a run again and again.
inline std::string short_contract_text(std::int64_t evaluations) {
  return with(gate::read_file(contract_file("reduced")), "\"grid_points\": 50",
              fmt::format("\"grid_points\": {}", evaluations + 1));
}

inline Values evaluate_reduced(const Values& inputs) {
  static const Config config = config_named("reduced");
  static const auto weights = open_weights("", kDefaultSeed, config);
  static const auto execution = cpu_execution(config);
  static ModelForward model(*execution, *weights);
  return model.evaluate(inputs);
}

// The program that the cases run, its output, and how it ended.
struct Ended {
  gate::ProcessEnd end;
  std::string output;
};

inline std::string h3_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "h3";
}

// `command.arguments` is what starts the program.
inline Ended run_h3(const Scratch& scratch, const std::vector<std::string>& arguments,
                    gate::Command command = {}) {
  command.arguments.insert(command.arguments.end(), {h3_program(), "generate"});
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.output_file = scratch.path("output");
  if (command.time_limit == 0) command.time_limit = 300;
  const gate::ProcessEnd end = gate::run_to_end(command);
  return {end, gate::read_file(command.output_file)};
}

// Where the program sees no GPU, whatever computed the run.
inline Ended run_h3_without_gpu(const Scratch& scratch, const std::vector<std::string>& arguments) {
  return run_h3(scratch, arguments, {.arguments = {"env", "CUDA_VISIBLE_DEVICES="}});
}

// The files of a run whose bytes are a promise, by name.
inline std::map<std::string, std::string> promised_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "log.jsonl" && name != "lock") files[name] = digest_file(entry.path().string()).sha256;
  }
  return files;
}

inline std::int64_t saved_steps(const std::string& folder) {
  std::int64_t steps = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    steps += entry.path().filename().string().starts_with("step_") && entry.path().extension() == ".json";
  return steps;
}

}  // namespace h3
