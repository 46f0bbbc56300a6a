// A file that appears under its name only when it is complete: written beside it, synced, then renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace h3 {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  // an existing file stays as it is until commit()
  ~AtomicFile();                          // without commit(), nothing remains
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // fails with the system's reason, e.g. a full disk
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* action) const;
  std::string path_, temporary_;
  int file_ = -1;
};

// All of a small file at once.
void write_file(const std::string& path, std::string_view text);

}  // namespace h3
