#include "model/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "model/error.h"

namespace h3 {

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_, ::getpid())) {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail_with_errno("create");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), std::min(bytes.size(), std::size_t(1) << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_with_errno("write");
    bytes = bytes.subspan(std::size_t(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail_with_errno("sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("rename to");
  ::close(file_);
  file_ = -1;
  const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;  // a folder that can be written but not read: the data itself is synced
  ::fsync(directory);
  ::close(directory);
}

void AtomicFile::fail_with_errno(const char* action) const {
  fail("{}: cannot {}: {}", path_, action, std::strerror(errno));
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace h3
