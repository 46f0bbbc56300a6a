#include "ctest/evidence/seal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "ctest/evidence/folder.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/text.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;

constexpr std::array kListed = {kLedgerFile, kRequiredFile, kOutputFile,  kJunitFile,
                                kReportFile, kCtrfFile,     kReceiptFile, kRedactionFile};

std::string line_of(const std::string& sha256, const std::string& name) {
  return sha256 + "  " + name + "\n";
}

void sync(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "{}: cannot open: {}", path.string(), std::strerror(errno));
  const int result = ::fsync(file);
  ::close(file);
  require(result == 0, "{}: cannot sync: {}", path.string(), std::strerror(errno));
}

// What model/atomic_file.h leaves of a file when its writer is killed.
bool is_unfinished(const std::string& name) {
  if (!name.ends_with(".tmp")) return false;
  const auto of = [&](const char* file) { return name.starts_with(std::string(file) + "."); };
  return std::ranges::any_of(kListed, of) || of(kSumsFile) || of(kCompleteFile);
}

// Hash by name; a finding for whatever is no line of sha256sum.
std::map<std::string, std::string> read_sums(const std::string& text, std::vector<std::string>& findings) {
  std::map<std::string, std::string> sums;
  std::size_t begin = 0, number = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    ++number;
    const bool formed =
        line.size() > 66 && line.substr(64, 2) == "  " && line.find_first_not_of("0123456789abcdef") == 64;
    if (!formed || !sums.emplace(line.substr(66), line.substr(0, 64)).second)
      findings.push_back(
          fmt::format("{}: line {} is not '<sha256>  <file>', or names a file again", kSumsFile, number));
  }
  if (begin != text.size()) findings.push_back(fmt::format("{}: the last line is torn", kSumsFile));
  return sums;
}

}  // namespace

bool looks_sealed(const std::string& folder) {
  return fs::exists(fs::symlink_status(fs::path(folder) / kCompleteFile));
}

std::vector<std::string> strangers(const std::string& folder) {
  std::set<std::string> expected(kListed.begin(), kListed.end());
  expected.insert({kSumsFile, kSignatureFile, kCompleteFile});
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const fs::file_status status = entry.symlink_status();
    if (fs::is_symlink(status))
      found.push_back(name + ": is a link");
    else if (!fs::is_regular_file(status))
      found.push_back(name + ": is no file");
    else if (!expected.contains(name))
      found.push_back(name + ": does not belong in an evidence folder");
  }
  std::ranges::sort(found);
  return found;
}

void break_seal(const std::string& folder) {
  const fs::path root(folder);
  if (fs::remove(root / kCompleteFile)) sync(root);
  for (const char* name : {kSumsFile, kSignatureFile}) fs::remove(root / name);
  for (const auto& name : strangers(folder))
    if (const std::string file = name.substr(0, name.find(':')); is_unfinished(file)) fs::remove(root / file);
}

void write_seal(const std::string& folder) {
  const fs::path root(folder);
  if (const auto found = strangers(folder); !found.empty()) fail("{}/{}", folder, found.front());
  std::set<std::string> names(kListed.begin(), kListed.end());
  std::string sums;
  for (const auto& name : names) {
    require(fs::exists(root / name), "{}/{}: is missing", folder, name);
    sync(root / name);
    sums += line_of(digest_file(root / name).sha256, name);
  }
  write_file(root / kSumsFile, sums);
  write_file(root / kCompleteFile, line_of(sha256_hex(sums), kSumsFile));
}

std::vector<std::string> check_seal(const std::string& folder) {
  const fs::path root(folder);
  if (!looks_sealed(folder)) return {fmt::format("{}: is missing, the folder is not sealed", kCompleteFile)};
  std::vector<std::string> findings = strangers(folder);
  if (!findings.empty()) return findings;
  if (!fs::exists(root / kSumsFile)) return {fmt::format("{}: is missing", kSumsFile)};
  const std::string text = read_file(root / kSumsFile);
  if (read_file(root / kCompleteFile) != line_of(sha256_hex(text), kSumsFile))
    return {fmt::format("{}: is not the hash of {}", kCompleteFile, kSumsFile)};
  const auto sums = read_sums(text, findings);
  for (const char* name : kListed) {
    if (!sums.contains(name))
      findings.push_back(fmt::format("{}: is not listed in {}", name, kSumsFile));
    else if (!fs::exists(root / name))
      findings.push_back(fmt::format("{}: is missing", name));
    else if (digest_file(root / name).sha256 != sums.at(name))
      findings.push_back(fmt::format("{}: its SHA-256 is not that in {}", name, kSumsFile));
  }
  for (const auto& [name, sha256] : sums)
    if (std::ranges::find(kListed, std::string_view(name)) == kListed.end())
      findings.push_back(fmt::format("{}: lists '{}', which does not belong in an evidence folder", kSumsFile,
                                     one_line(name)));
  std::ranges::sort(findings);
  return findings;
}

}  // namespace h3::gate
