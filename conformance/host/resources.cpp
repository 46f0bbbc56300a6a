// GPUs by CTest's resource file: a gate of several takes those that it was given, and without any it is
// refused where the machine has them.
#include "ctest/resources.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

using Variables = std::map<std::string, std::string>;

std::filesystem::path build_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

gate::ProcessEnd run_gate(const Scratch& scratch, const Variables& variables,
                          std::vector<std::string> options) {
  std::vector<std::string> command = {"env", "-u", "CTEST_RESOURCE_GROUP_COUNT"};
  for (const auto& [name, value] : variables) command.push_back(name + "=" + value);
  command.push_back(build_folder() / "h3_gate");
  command.insert(command.end(), options.begin(), options.end());
  return gate::run_to_end({.arguments = command, .output_file = scratch.path("log"), .time_limit = 60});
}

struct AssignedRow {
  const char* name;
  Variables variables;
  int exit_code;
  const char* says;
};
void PrintTo(const AssignedRow& row, std::ostream* out) { *out << row.name; }

struct AssignedGpus : testing::TestWithParam<AssignedRow> {};

// A gate that needs two.
TEST_P(AssignedGpus, decide_whether_the_gate_runs) {
  const Scratch scratch;
  const std::string required = scratch.path("required.txt");
  write_file(required,
             "honest/Honest.passes/row_1\nhonest/Honest.passes/row_2\nhonest/Honest.passes/row_3\n");
  const auto end =
      run_gate(scratch, GetParam().variables,
               {"--gate", "honest", "--binary", build_folder() / "h3_false_greens", "--required", required,
                "--evidence", scratch.path("evidence"), "--time-limit", "60", "--gpus", "2"});
  EXPECT_EQ(end.exit_code, GetParam().exit_code);
  EXPECT_NE(gate::read_file(scratch.path("log")).find(GetParam().says), std::string::npos)
      << gate::read_file(scratch.path("log"));
}

const AssignedRow kAssigned[] = {
    {"two",
     {{"CUDA_VISIBLE_DEVICES", "4,7"},
      {"CTEST_RESOURCE_GROUP_COUNT", "2"},
      {"CTEST_RESOURCE_GROUP_0_GPUS", "id:1,slots:1"},
      {"CTEST_RESOURCE_GROUP_1_GPUS", "id:0,slots:1"}},
     0,
     "gate honest: 3 of 3 required cases ran"},
    {"without_a_resource_file", {{"CUDA_VISIBLE_DEVICES", "4,7"}}, 1, "CTest assigned 0 of 2 GPUs"},
    {"too_few",
     {{"CUDA_VISIBLE_DEVICES", "4,7"},
      {"CTEST_RESOURCE_GROUP_COUNT", "1"},
      {"CTEST_RESOURCE_GROUP_0_GPUS", "id:1,slots:1"}},
     1,
     "CTest assigned 1 of 2 GPUs"},
    {"one_that_is_not_here",
     {{"CUDA_VISIBLE_DEVICES", "4,7"},
      {"CTEST_RESOURCE_GROUP_COUNT", "1"},
      {"CTEST_RESOURCE_GROUP_0_GPUS", "id:2,slots:1"}},
     2,
     "GPU 2 of 2 that are visible"},
    {"another_resource",
     {{"CUDA_VISIBLE_DEVICES", "4,7"}, {"CTEST_RESOURCE_GROUP_COUNT", "1"}},
     2,
     "CTEST_RESOURCE_GROUP_0_GPUS: '', expected id:"},
    {"on_a_machine_without_them",
     {{"CUDA_VISIBLE_DEVICES", ""}},
     0,
     "gate honest: 3 of 3 required cases ran"},
};
INSTANTIATE_TEST_SUITE_P(host, AssignedGpus, testing::ValuesIn(kAssigned),
                         [](const auto& info) { return std::string(info.param.name); });

struct ResourceFile : testing::TestWithParam<int> {};

// What h3_gate writes, CTest takes: a test of two GPUs runs with two, and is not run with fewer.
TEST_P(ResourceFile, is_what_ctest_assigns_from) {
  const int gpus = GetParam();
  const Scratch scratch;
  std::string visible = "";
  for (int i = 0; i < gpus; ++i) visible += (i ? ",GPU-" : "GPU-") + std::to_string(i);
  ASSERT_EQ(run_gate(scratch, {{"CUDA_VISIBLE_DEVICES", visible}}, {"--resources", scratch.path("gpus.json")})
                .exit_code,
            0);
  EXPECT_EQ(gate::read_file(scratch.path("log")), std::to_string(gpus) + "\n");
  write_file(scratch.path("CTestTestfile.cmake"),
             "add_test(two sh -c \"echo given $CTEST_RESOURCE_GROUP_COUNT\")\n"
             "set_tests_properties(two PROPERTIES RESOURCE_GROUPS 2,gpus:1)\n");
  const auto end = gate::run_to_end({.arguments = {"ctest", "-V", "--test-dir", scratch.folder(),
                                                   "--resource-spec-file", scratch.path("gpus.json")},
                                     .output_file = scratch.path("ctest.log"),
                                     .time_limit = 60});
  const std::string output = gate::read_file(scratch.path("ctest.log"));
  EXPECT_EQ(end.exit_code == 0, gpus >= 2) << output;
  EXPECT_EQ(output.find("given 2") != std::string::npos, gpus >= 2) << output;
}
INSTANTIATE_TEST_SUITE_P(host, ResourceFile, testing::Values(0, 1, 2, 8),
                         [](const auto& info) { return "gpus_" + std::to_string(info.param); });

class Environment {  // of this process, as CTest would have set it
 public:
  explicit Environment(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      if (const char* before = std::getenv(name.c_str())) before_[name] = before;
      ::setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Environment() {
    for (const auto& name : names_)
      before_.contains(name) ? ::setenv(name.c_str(), before_[name].c_str(), 1) : ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
  Variables before_;
};

struct VisibleDevices : testing::TestWithParam<const char*> {};

// Every group's GPU, in the groups' order, as the process names them.
TEST_P(VisibleDevices, are_those_of_all_groups) {
  const Environment environment({{"CUDA_VISIBLE_DEVICES", "GPU-a,3,GPU-c"},
                                 {"CTEST_RESOURCE_GROUP_COUNT", "2"},
                                 {"CTEST_RESOURCE_GROUP_0_GPUS", "id:2,slots:1"},
                                 {"CTEST_RESOURCE_GROUP_1_GPUS", "id:1,slots:1"}});
  EXPECT_EQ(gate::assigned_gpus(gate::visible_gpus()), (std::vector<std::string>{"GPU-c", "3"}));
}
INSTANTIATE_TEST_SUITE_P(host, VisibleDevices, testing::Values("two_of_three"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
