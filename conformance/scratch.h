// A folder of a test's own, removed when the test ends.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "model/temporary_folder.h"

namespace h3 {

class Scratch {
 public:
  Scratch() : folder_("h3_scratch") {}
  const std::string& folder() const { return folder_.path(); }
  std::string path(const std::string& name) const { return folder_.file(name); }
  std::vector<std::string> files() const {  // names, sorted
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace h3
