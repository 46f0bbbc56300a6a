#include "harness/report/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "model/digest.h"
#include "model/error.h"
#include "model/text.h"

namespace h3 {
namespace {

const std::string kNoPrevious(64, '0');

void make_printable(nlohmann::ordered_json& value) {
  if (value.is_string()) {
    value = printable(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (auto& child : value) make_printable(child);
  }
}

// One line, without its end.
std::string line_of(nlohmann::ordered_json& event, std::int64_t sequence, const std::string& previous) {
  make_printable(event);
  event["seq"] = sequence;
  event["prev"] = previous;
  return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string defect_of(const nlohmann::ordered_json& event, std::int64_t sequence,
                      const std::string& previous) {
  if (event.is_discarded()) return "not JSON";
  if (!event.is_object() || !event.contains("event") || !event["event"].is_string()) return "no event";
  if (!event.contains("seq") || event["seq"] != sequence) return fmt::format("expected seq {}", sequence);
  if (!event.contains("prev") || event["prev"] != previous)
    return "the hash of the line before it does not match";
  return "";
}

}  // namespace

LedgerWriter::LedgerWriter(const std::string& path) : previous_(kNoPrevious), path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  require(file_ >= 0, "ledger {}: cannot create: {}", path, std::strerror(errno));
}

LedgerWriter LedgerWriter::continue_at(const std::string& path) {
  const Ledger so_far = read_ledger(path);
  require(so_far.defect.empty(), "ledger {}: cannot continue: {}", path, so_far.defect);
  LedgerWriter writer;
  writer.path_ = path;
  writer.sequence_ = std::int64_t(so_far.events.size());
  writer.previous_ = so_far.root;
  writer.torn_bytes_ = so_far.torn_bytes;
  writer.file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  require(writer.file_ >= 0, "ledger {}: cannot open: {}", path, std::strerror(errno));
  struct stat status {};
  require(::fstat(writer.file_, &status) == 0 &&
              ::ftruncate(writer.file_, status.st_size - so_far.torn_bytes) == 0,
          "ledger {}: cannot cut off a torn line: {}", path, std::strerror(errno));
  return writer;
}

LedgerWriter::LedgerWriter(LedgerWriter&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      sequence_(other.sequence_),
      torn_bytes_(other.torn_bytes_),
      previous_(std::move(other.previous_)),
      path_(std::move(other.path_)) {}

LedgerWriter::~LedgerWriter() {
  if (file_ >= 0) ::close(file_);
}

void LedgerWriter::append(nlohmann::ordered_json event) {
  const std::string line = line_of(event, sequence_, previous_);
  const std::string bytes = line + "\n";
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    require(count > 0, "ledger {}: cannot write: {}", path_, std::strerror(errno));
    done += std::size_t(count);
  }
  previous_ = sha256_hex(line);
  ++sequence_;
}

void LedgerWriter::sync() {
  require(::fdatasync(file_) == 0, "ledger {}: cannot sync: {}", path_, std::strerror(errno));
}

std::string ledger_text(std::vector<nlohmann::ordered_json> events) {
  std::string text, previous = kNoPrevious;
  std::int64_t sequence = 0;
  for (auto& event : events) {
    const std::string line = line_of(event, sequence++, previous);
    text += line + "\n";
    previous = sha256_hex(line);
  }
  return text;
}

Ledger read_ledger(const std::string& path) {
  Ledger ledger;
  ledger.root = kNoPrevious;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    ledger.defect = "no ledger was written";
    return ledger;
  }
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = std::move(content).str();
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const auto event = nlohmann::ordered_json::parse(line, nullptr, false);
    const std::int64_t sequence = std::int64_t(ledger.events.size());
    if (const std::string defect = defect_of(event, sequence, ledger.root); !defect.empty()) {
      ledger.defect = fmt::format("line {}: {}", sequence + 1, defect);
      return ledger;
    }
    ledger.events.push_back(event);
    ledger.root = sha256_hex(line);
  }
  ledger.torn_bytes = std::int64_t(text.size() - begin);
  return ledger;
}

}  // namespace h3
