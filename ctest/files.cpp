#include "ctest/files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "model/error.h"

namespace h3::gate {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(bool(file), "{}: cannot read: {}", path, std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace h3::gate
