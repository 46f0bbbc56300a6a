// What a receipt says of the machine: the listed facts and nothing else.
#include "ctest/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "conformance/host/gate_run.h"
#include "fixtures/path.h"
#include "harness/report/this_process.h"
#include "model/digest.h"

namespace h3 {
namespace {

struct RunEnvironment : testing::TestWithParam<const char*> {
  const nlohmann::ordered_json found = gate::environment();
};

TEST_P(RunEnvironment, holds_the_listed_facts_only) {
  std::set<std::string> names;
  for (const auto& [name, value] : found.items()) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"os", "kernel", "cpu", "cores", "memory_gib", "compiler", "driver",
                                          "cuda_driver", "gpus"}));
  for (const auto& gpu : found["gpus"]) {
    std::set<std::string> facts;
    for (const auto& [name, value] : gpu.items()) facts.insert(name);
    EXPECT_EQ(facts,
              (std::set<std::string>{"name", "memory_gib", "compute_capability", "ecc", "mig", "persistence",
                                     "sm_clock_mhz", "sm_clock_max_mhz", "power_limit_w"}));
  }
  EXPECT_GE(found["cores"].get<int>(), 1);
  EXPECT_GE(found["memory_gib"].get<int>(), 1);
}

TEST_P(RunEnvironment, does_not_name_the_host) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(found.dump().find("\"" + std::string(host) + "\""), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(host, RunEnvironment, testing::Values("this_machine"),
                         [](const auto& info) { return std::string(info.param); });

// The judged binary says which libraries it had, and a gate what its GPUs were like before and after.
struct RecordedMachine : testing::TestWithParam<const char*> {
  nlohmann::ordered_json report_of(const std::vector<std::string>& environment) {
    gate.run_gate("honest", kHonest, environment);
    EXPECT_EQ(gate.end.exit_code, 0) << gate.output;
    return nlohmann::ordered_json::parse(gate::read_file(gate.evidence() / "report.json"));
  }
  GateRun gate;
};

TEST_P(RecordedMachine, has_the_libraries_with_their_hashes) {
  const auto report = report_of({"H3_THREADS=2", "SECRET=1", "LD_LIBRARY_PATH=/home/alice/lib"});
  const auto here = loaded_libraries();  // this binary links what that one does, and more
  const auto& there = report["binary"]["libraries"];
  EXPECT_GE(there.size(), 5u);
  for (const auto& library : there) EXPECT_NE(std::ranges::find(here, library), here.end()) << library;
  EXPECT_EQ(report["binary"]["variables"].dump(), R"({"H3_THREADS":"2","LD_LIBRARY_PATH":"[path-1]"})");
  EXPECT_EQ(report["binary"]["build"], build_facts());
  EXPECT_EQ(report["inputs"]["fixtures_sha256"], digest_file(fixture_path("manifest.json").string()).sha256);
}

TEST_P(RecordedMachine, has_the_state_of_its_gpus_before_and_after) {
  const auto report = report_of({"LD_LIBRARY_PATH=" + (build_folder() / "nvml_stub").string()});
  const auto& gpus = report["environment"]["gpus"];
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0]["name"], "NVIDIA Stub");
  EXPECT_EQ(gpus[0]["compute_capability"], "9.0");
  EXPECT_EQ(gpus[0]["ecc"], true);
  EXPECT_EQ(gpus[0]["mig"], false);
  EXPECT_EQ(gpus[0]["before"]["sm_clock_mhz"], 1980);
  EXPECT_LT(gpus[0]["after"]["sm_clock_mhz"], 1980);
  EXPECT_EQ(gpus[0]["after"]["memory_clock_mhz"], 3201);
  EXPECT_EQ(gpus[0]["after"]["clock_event_reasons"], 4);
  EXPECT_EQ(gpus[0]["before"]["ecc_corrected"], 0);
  EXPECT_EQ(gpus[0]["after"]["ecc_corrected"], 1);
  EXPECT_EQ(gpus[0]["after"]["ecc_uncorrected"], 0);
  gate.verify();
  EXPECT_EQ(gate.end.exit_code, 0) << gate.output;
}

INSTANTIATE_TEST_SUITE_P(host, RecordedMachine, testing::Values("honest_gate"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
