// Data flows one way, so a room includes only what stands before it: the golden nothing of the kernels but
// the memory of the GPU, no comparison the execution that it judges, and nobody the tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "ctest/files.h"
#include "fixtures/path.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

struct Room {
  std::string folder;
  std::vector<std::string> before;
};
void PrintTo(const Room& room, std::ostream* out) { *out << room.folder; }

const std::vector<std::string> kFoundation = {"model", "fixtures", "kernels", "golden"};

Room of_the_harness(const std::string& name, std::vector<std::string> rooms) {
  for (std::string& room : rooms) room = "harness/" + room;
  rooms.insert(rooms.end(), kFoundation.begin(), kFoundation.end());
  return {"harness/" + name, rooms};
}

const Room kRooms[] = {
    {"model", {}},
    {"fixtures", {"model"}},
    {"kernels", {"model", "fixtures"}},
    {"golden", {"model", "kernels/cuda"}},
    of_the_harness("report", {}),
    of_the_harness("compare", {}),
    of_the_harness("execution", {"compare", "candidate"}),
    of_the_harness("replay", {"report", "compare", "execution"}),
    of_the_harness("capsule", {"report", "compare", "execution", "replay"}),
    of_the_harness("full_model", {"report", "compare", "execution", "replay"}),
    of_the_harness("generation", {"report", "compare", "execution", "full_model"}),
    of_the_harness("parallel", {"report", "compare", "execution"}),
    of_the_harness("power", {"report", "compare", "execution", "replay", "full_model"}),
    {"ctest/evidence", {"ctest", "model", "fixtures", "harness/report", "harness/compare", "harness/replay"}},
};

std::vector<fs::path> sources_in(const fs::path& folder) {
  std::vector<fs::path> sources;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (const std::string kind = entry.path().extension();
        kind == ".h" || kind == ".cpp" || kind == ".cu" || kind == ".cuh")
      sources.push_back(entry.path());
  return sources;
}

class OneWay : public testing::TestWithParam<Room> {};

TEST_P(OneWay, includes_only_rooms_before_it) {
  const Room& room = GetParam();
  const auto is_allowed = [&](const std::string& file) {
    return file.starts_with(room.folder + "/") ||
           std::ranges::any_of(room.before, [&](const auto& seen) { return file.starts_with(seen + "/"); });
  };
  int files = 0;
  for (const fs::path& source : sources_in(data_root() / room.folder)) {
    ++files;
    std::istringstream lines(gate::read_file(source.string()));
    for (std::string line; std::getline(lines, line);) {
      const std::string begins = "#include \"";
      if (!line.starts_with(begins)) continue;
      const std::string file = line.substr(begins.size(), line.rfind('"') - begins.size());
      EXPECT_TRUE(file.find('/') == file.npos || is_allowed(file)) << source << " includes " << file;
    }
  }
  EXPECT_GT(files, 0);
}

INSTANTIATE_TEST_SUITE_P(host, OneWay, testing::ValuesIn(kRooms), [](const auto& info) {
  std::string name = info.param.folder;
  std::ranges::replace(name, '/', '_');
  return name;
});

}  // namespace
}  // namespace h3
