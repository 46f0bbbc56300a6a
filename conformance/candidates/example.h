// The examples of this folder, as libraries beside the program that runs the cases.
#pragma once

#include <filesystem>
#include <string>

namespace h3 {

inline std::string example_library(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("libh3_" + name + ".so");
}

}  // namespace h3
