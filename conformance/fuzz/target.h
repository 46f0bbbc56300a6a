// What every fuzz target promises: a reader takes any bytes, and says no with an Error of one line. Any other
// exception, a crash, undefined behaviour, ten seconds of work or an allocation out of proportion is a
// finding.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace h3::fuzz {

inline std::string text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// For readers that take a path; HDF5 asks for a real one, in memory where there is /dev/shm.
inline std::string new_path() {
  static const bool in_memory = std::filesystem::is_directory("/dev/shm");
  return (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/h3_fuzz_XXXXXX";
}

// The input as a file.
class InputFile {
 public:
  InputFile(const std::uint8_t* data, std::size_t size) : path_(new_path()) {
    const int file = ::mkstemp(path_.data());
    if (file < 0 || ::write(file, data, size) != ssize_t(size)) std::abort();
    ::close(file);
  }
  ~InputFile() { ::unlink(path_.c_str()); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A folder that the input is a file of.
class InputFolder {
 public:
  InputFolder() : path_(new_path()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline long accepted = 0;  // a target that refuses all of its seeds tests nothing

template <class Read>
void read_or_refuse(const Read& read) {
  try {
    read();
    ++accepted;
  } catch (const Error& error) {
    const std::string line = error.what();
    if (line.empty() || line.find('\n') != std::string::npos) std::abort();
  }
}

}  // namespace h3::fuzz
