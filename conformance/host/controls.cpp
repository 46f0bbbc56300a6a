// Controls: every deliberate fault is found in its class at the node that it names, and its unperturbed twin
// passes.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <set>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/path.h"
#include "harness/power/controls/control.h"

namespace h3 {

void PrintTo(const Control& control, std::ostream* out) { *out << control.name; }

namespace {

std::string control_name(const testing::TestParamInfo<Control>& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    if (letter == '.' || letter == '-') letter = '_';
  return name;
}

std::vector<Control> that_run() {
  std::vector<Control> list;
  for (const auto& control : controls())
    if (!control.held_by) list.push_back(control);
  return list;
}

std::vector<Control> held_by_a_case() {
  std::vector<Control> list;
  for (const auto& control : controls())
    if (control.held_by) list.push_back(control);
  return list;
}

struct PlantedControl : testing::TestWithParam<Control> {};

TEST_P(PlantedControl, is_found_in_its_class_at_its_node) {
  const Control& control = GetParam();
  const ControlResult result = run_control(control);
  EXPECT_TRUE(result.twin_passed) << "the unperturbed twin: " << result.twin;
  EXPECT_STREQ(name_of(result.found.fault), name_of(control.fault)) << result.found.detail;
  EXPECT_EQ(result.found.where, control.where) << result.found.detail;
  EXPECT_EQ(result.found.detail.empty(), result.found.fault == FaultClass::none);
}
INSTANTIATE_TEST_SUITE_P(host, PlantedControl, testing::ValuesIn(that_run()), control_name);

// A control that states something else than what is found is not detected.
struct Misstatement {
  const char* name;
  const char* control;
  void (*misstate)(Control& control);
};
void PrintTo(const Misstatement& row, std::ostream* out) { *out << row.name; }

struct MisstatedControl : testing::TestWithParam<Misstatement> {};

TEST_P(MisstatedControl, is_not_detected) {
  Control control = control_named(GetParam().control);
  ASSERT_TRUE(detected(control, run_control(control))) << "as stated";
  GetParam().misstate(control);
  EXPECT_FALSE(detected(control, run_control(control)));
}

const Misstatement kMisstatements[] = {
    {"another_class", "A1", [](Control& control) { control.fault = FaultClass::layout; }},
    {"another_step", "H13", [](Control& control) { control.where = "scheduler"; }},
    {"other_rows", "A1",
     [](Control& control) { control.only_rows = [](std::int64_t row) { return row != 5; }; }},
    {"no_fault_at_all", "sinusoid_halves_swapped",
     [](Control& control) { control.plant->run = [](const Call& call) { return call.run(); }; }},
    {"a_twin_that_does_not_repeat", "sinusoid_halves_swapped",
     [](Control& control) {
       control.both = Plant{"", [](const Call& call) {
                              const Tensor y = call.run();
                              return call.number % 2 == 0 ? y : y.to(DType::bf16).to(DType::fp32);
                            }};
     }},
};
INSTANTIATE_TEST_SUITE_P(host, MisstatedControl, testing::ValuesIn(kMisstatements),
                         [](const auto& info) { return std::string(info.param.name); });

struct HeldControl : testing::TestWithParam<Control> {};

TEST_P(HeldControl, names_a_required_case) {
  const std::string held_by = GetParam().held_by, gate = held_by.substr(0, held_by.find('/'));
  const std::string required = gate::read_file((data_root() / "ctest/required" / (gate + ".txt")).string());
  EXPECT_NE(required.find(held_by + "\n"), std::string::npos)
      << held_by << " is not required by gate " << gate;
}
INSTANTIATE_TEST_SUITE_P(host, HeldControl, testing::ValuesIn(held_by_a_case()), control_name);

struct Listing : testing::TestWithParam<const char*> {};

// A gate is listed while it is built, on machines without a GPU, and by programs that do not wait.
TEST_P(Listing, waits_for_no_device) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const Scratch scratch;
  const auto start = std::chrono::steady_clock::now();
  const auto end = gate::run_to_end(
      {.arguments = {"env", "CUDA_VISIBLE_DEVICES=", folder / GetParam(), "--gtest_list_tests"},
       .output_file = scratch.path("list"),
       .time_limit = 10});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_NE(gate::read_file(scratch.path("list")).find("host/Listing."), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(host, Listing, testing::Values("h3_conformance"),
                         [](const auto& info) { return std::string(info.param); });

struct ControlList : testing::TestWithParam<const char*> {};

TEST_P(ControlList, has_every_name_once) {
  std::set<std::string> names;
  for (const auto& control : controls()) {
    EXPECT_TRUE(names.insert(control.name).second) << control.name << " twice";
    EXPECT_NE(std::string(control.perturbed), "") << control.name;
    EXPECT_EQ(bool(control.plant) + bool(control.check) + (control.held_by != nullptr), 1) << control.name;
  }
}
INSTANTIATE_TEST_SUITE_P(host, ControlList, testing::Values("controls"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
