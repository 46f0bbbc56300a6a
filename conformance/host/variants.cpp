// Programs that differ from a built one in one source file (ctest/variants.h): a small project, built once.
#include "ctest/variants.h"

#include <gtest/gtest.h>

#include <ostream>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/error.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using gate::Variant;

constexpr std::pair<const char*, const char*> kProject[] = {
    {"CMakeLists.txt",
     "cmake_minimum_required(VERSION 3.25)\n"
     "project(twelve LANGUAGES CXX)\n"
     "include_directories(${CMAKE_SOURCE_DIR})\n"
     "add_library(sum STATIC room/sum.cpp room/unread.cpp)\n"
     "add_executable(twelve app/main.cpp)\n"
     "target_link_libraries(twelve PRIVATE sum)\n"
     "add_executable(other room/unread.cpp app/main.cpp)\n"
     "target_link_libraries(other PRIVATE sum)\n"},
    {"room/one.h", "inline int one() { return 1; }\n"},
    {"room/sum.cpp", "#include \"beside.h\"\n#include \"room/one.h\"\nint sum() { return one() + kMore; }\n"},
    {"room/beside.h", "constexpr int kMore = 1;\n"},
    {"room/unread.cpp", "int unread() { return 5; }\n"},
    {"app/main.cpp",
     "#include <cstdio>\n#include \"room/one.h\"\nint sum();\n"
     "int main() { std::printf(\"%d%d\", one(), sum()); }\n"}};

// The project under source/, built under build/, its variants under variants/.
class Project {
 public:
  Project() {
    for (const auto& [file, text] : kProject) {
      fs::create_directories((source() / file).parent_path());
      write_file(source() / file, text);
    }
    run({"cmake", "-S", source(), "-B", build(), "-G", "Ninja"});
    run({"cmake", "--build", build()});
    std::vector<Variant> variants;
    for (const auto& [name, file, text] : kVariants) variants.push_back({name, file, text});
    gate::write_variants(build(), "twelve", variants, folder());
    const auto end = gate::run_to_end(
        {.arguments = {gate::ninja_of_build(build()), "-C", folder(), "-k", "0"}, .output_file = log()});
    require(end.exit_code == 1, "expected variants that do not build: {}", gate::read_file(log()));
  }

  struct Edit {
    const char *name, *file, *text;
  };
  static constexpr Edit kVariants[] = {
      {"header", "room/one.h", "inline int one() { return 3; }\n"},
      {"not_reached", "room/beside.h", "constexpr int kMore = 7;\n"},  // its reader finds the old one first
      {"broken", "room/sum.cpp", "int sum() { return none(); }\n"},
      {"archived", "room/sum.cpp", "#include \"room/one.h\"\nint sum() { return one() + 6; }\n"},
      {"linked", "app/main.cpp",
       "#include <cstdio>\nint sum();\nint main() { std::printf(\"%d\", sum()); }\n"},
  };

  fs::path source() const { return scratch_.path("source"); }
  fs::path build() const { return scratch_.path("build"); }
  fs::path folder() const { return scratch_.path("variants"); }
  std::string log() const { return scratch_.path("log"); }

 private:
  void run(const std::vector<std::string>& arguments) const {
    const bool clean = gate::run_to_end({.arguments = arguments, .output_file = log()}).clean();
    require(clean, "{}", gate::read_file(log()));
  }

  Scratch scratch_;
};

const Project& project() {
  static const Project project;
  return project;
}

struct VariantRow {
  const char *name, *prints;  // "": is not built
};
void PrintTo(const VariantRow& row, std::ostream* out) { *out << row.name; }

struct VariantProgram : testing::TestWithParam<VariantRow> {};

TEST_P(VariantProgram, has_its_own_file_and_no_other) {
  const fs::path program = gate::variant_program(project().folder(), GetParam().name);
  ASSERT_EQ(fs::exists(program), *GetParam().prints != 0);
  EXPECT_EQ(gate::output_of({program}), GetParam().prints);
}

TEST_P(VariantProgram, leaves_the_tree_and_its_build_alone) {
  for (const auto& [file, text] : kProject) EXPECT_EQ(gate::read_file(project().source() / file), text);
  EXPECT_EQ(gate::output_of({project().build() / "twelve"}), "12");
}

constexpr VariantRow kRows[] = {
    {"header", "34"}, {"broken", ""}, {"not_reached", ""}, {"archived", "17"}, {"linked", "2"}};
INSTANTIATE_TEST_SUITE_P(host, VariantProgram, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

struct RefusedVariantRow {
  const char *name, *target, *file, *error;
};
void PrintTo(const RefusedVariantRow& row, std::ostream* out) { *out << row.name; }

struct RefusedVariant : testing::TestWithParam<RefusedVariantRow> {};

TEST_P(RefusedVariant, is_one_line) {
  try {
    gate::write_variants(project().build(), GetParam().target, {{"one", GetParam().file, ""}},
                         project().folder() / "refused");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().error), std::string::npos) << error.what();
  }
}

constexpr RefusedVariantRow kRefused[] = {
    {"a_file_that_nothing_reads", "twelve", "room/none.h", "one: nothing in twelve reads room/none.h"},
    {"a_target_that_is_not_there", "thirteen", "app/main.cpp", "thirteen: is not built"},
};
INSTANTIATE_TEST_SUITE_P(host, RefusedVariant, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
