// One gate, run by h3_gate as CTest runs it, and its evidence, verified by h3_evidence as a reviewer does.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/json.h"

namespace h3 {

inline std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// The cases of a gate that closes (ctest/false_greens/misbehaviours.cpp).
inline const std::string kHonest =
    "honest/Honest.passes/row_1\nhonest/Honest.passes/row_2\nhonest/Honest.passes/row_3\n";

struct GateRun {
  Scratch scratch;
  gate::ProcessEnd end;
  std::string output;

  std::filesystem::path evidence() const { return scratch.path("evidence"); }
  nlohmann::json receipt() const {
    return nlohmann::json::parse(gate::read_file(evidence() / "receipt.json"), nullptr, false);
  }

  void run(const std::string& program, const std::vector<std::string>& environment,
           const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"env", "-u", "H3_ALLOW_SKIP"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.push_back(build_folder() / program);
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string log = scratch.path("gate.log");
    end = gate::run_to_end({.arguments = command, .output_file = log, .time_limit = 60});
    output = gate::read_file(log);
  }

  void run_gate(const std::string& gate, const std::string& required,
                const std::vector<std::string>& environment = {},
                const std::string& binary = "h3_false_greens") {
    write_file(scratch.path("required.txt"), required);
    run("h3_gate", environment,
        {"--gate", gate, "--binary", build_folder() / binary, "--required", scratch.path("required.txt"),
         "--evidence", evidence(), "--time-limit", gate.starts_with("hangs") ? "1" : "60"});
  }

  // What a reviewer does with the folder that the gate left.
  void verify(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"verify", evidence()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    run("h3_evidence", {}, arguments);
  }

  std::string last_line() const {
    const std::string text = output.substr(0, output.size() - output.ends_with('\n'));
    return text.substr(text.rfind('\n') + 1);
  }
};

}  // namespace h3
