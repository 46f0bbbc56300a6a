#include "ctest/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "model/error.h"

namespace h3 {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(bool(file), "{}: cannot read: {}", path, std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

void write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  require(file != nullptr, "{}: cannot write: {}", path, std::strerror(errno));
  bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  whole = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0 && whole;
  whole = std::fclose(file) == 0 && whole;
  require(whole && std::rename(temporary.c_str(), path.c_str()) == 0, "{}: cannot write: {}", path,
          std::strerror(errno));
}

}  // namespace h3
