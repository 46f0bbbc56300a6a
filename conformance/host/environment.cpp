// What a receipt says of the machine: the listed facts and nothing else.
#include "ctest/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

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
    EXPECT_EQ(facts, (std::set<std::string>{"name", "memory_gib", "compute_capability", "ecc", "mig",
                                            "persistence", "sm_clock_mhz", "sm_clock_max_mhz",
                                            "power_limit_w"}));
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

}  // namespace
}  // namespace h3
