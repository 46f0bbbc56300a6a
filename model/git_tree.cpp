#include "model/git_tree.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "model/error.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

using Sha1 = std::array<unsigned char, 20>;

Sha1 object_id(const std::string& type, const std::string& content) {
  const std::string object = fmt::format("{} {}", type, content.size()) + '\0' + content;
  Sha1 id;
  require(EVP_Digest(object.data(), object.size(), id.data(), nullptr, EVP_sha1(), nullptr) == 1,
          "OpenSSL cannot compute SHA-1");
  return id;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  require(file.good() || file.eof(), "{}: cannot read", path.string());
  return content;
}

bool is_ignored(const fs::path& path) {
  return path.extension() == ".tmp" || path.filename() == "__pycache__";
}

struct Entry {
  std::string name, mode;
  Sha1 id;
  std::string sorted_by() const { return mode == "40000" ? name + "/" : name; }
};

struct Tree {
  Sha1 id;
  bool empty;
};

Tree tree_of(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const auto& item : fs::directory_iterator(folder)) {
    const fs::path& path = item.path();
    const std::string name = path.filename().string();
    if (is_ignored(path)) continue;
    if (item.is_symlink()) {
      entries.push_back({name, "120000", object_id("blob", fs::read_symlink(path).string())});
    } else if (item.is_directory()) {
      if (const Tree below = tree_of(path); !below.empty) entries.push_back({name, "40000", below.id});
    } else {
      require(item.is_regular_file(), "{}: neither a file nor a folder", path.string());
      const bool runs = (item.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
      entries.push_back({name, runs ? "100755" : "100644", object_id("blob", content_of(path))});
    }
  }
  std::ranges::sort(entries, {}, &Entry::sorted_by);
  std::string content;
  for (const Entry& entry : entries) {
    content += entry.mode + " " + entry.name + '\0';
    content.append(entry.id.begin(), entry.id.end());
  }
  return {object_id("tree", content), entries.empty()};
}

}  // namespace

std::string git_tree_id(const std::string& folder) {
  require(fs::is_directory(folder), "{}: not a folder", folder);
  std::string digits;
  for (const unsigned char byte : tree_of(folder).id) digits += fmt::format("{:02x}", byte);
  return digits;
}

}  // namespace h3
