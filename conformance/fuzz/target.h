// What every fuzz target promises: a reader takes any bytes, and says no with an Error of one line. Any other
// exception, a crash, undefined behaviour, a second of work or an allocation out of proportion is a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace h3::fuzz {

inline std::string text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The input as a file in memory, for readers that take a path.
class InputFile {
 public:
  InputFile(const std::uint8_t* data, std::size_t size) : file_(::memfd_create("input", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, data, size) != ssize_t(size)) std::abort();
  }
  ~InputFile() { ::close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

template <class Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string line = error.what();
    if (line.empty() || line.find('\n') != std::string::npos) std::abort();
  }
}

}  // namespace h3::fuzz
