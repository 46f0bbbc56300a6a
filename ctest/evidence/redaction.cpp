#include "ctest/evidence/redaction.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <regex>
#include <set>

#include "ctest/environment.h"
#include "ctest/evidence/folder.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// ---- Fields of the ledger. Fields of the text kind are written by people, libraries and systems.

struct Fields {
  std::set<std::string> plain, text;
};
const std::map<std::string, Fields>& fields() {
  static const std::map<std::string, Fields> kFields = {
      {"run_begin", {{"selected"}, {"filter"}}},
      {"binary", {{"fixtures_sha256"}, {"build", "variables", "libraries"}}},
      {"loaded", {{}, {"libraries"}}},
      {"case_begin", {{"case", "line"}, {"file"}}},
      {"part", {{"case", "kind", "line"}, {"file", "text"}}},
      {"case_end", {{"case", "outcome", "seconds"}, {"properties"}}},
      {"run_end", {{"exit_code"}, {}}},
      {"refused", {{}, {"reason"}}},
      {"process_end",
       {{"gate", "started", "seconds", "exit_code", "signal", "timed_out", "torn_bytes", "required_sha256",
         "binary_sha256", "git"},
        {"environment"}}},
      {"interrupted", {{"torn_bytes"}, {}}},
  };
  return kFields;
}

enum class Field { plain, text, unlisted };
Field field_of(const std::string& event, const std::string& key) {
  if (key == "event" || key == "seq" || key == "prev") return Field::plain;
  const auto found = fields().find(event);
  if (found == fields().end()) return Field::unlisted;
  return found->second.plain.contains(key)  ? Field::plain
         : found->second.text.contains(key) ? Field::text
                                            : Field::unlisted;
}

// Every string in a value, in order.
template <class Value>
void for_each_string(Value& value, const std::function<void(Value&)>& action) {
  if (value.is_string()) action(value);
  if (value.is_structured())
    for (auto& child : value) for_each_string<Value>(child, action);
}

// ---- Forms.

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }
bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Length of what begins at `at`: 0 when there is none of that form.
std::size_t run_of(std::string_view text, std::size_t at, bool (*is)(char)) {
  std::size_t end = at;
  while (end < text.size() && is(text[end])) ++end;
  return end - at;
}

bool is_path_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("._~+@%#-").find(c) != std::string_view::npos;
}

// A slash where a word could not go on, and at least two parts behind it, or one that is a usual root.
std::size_t path_at(std::string_view text, std::size_t at) {
  if (text[at] != '/') return 0;
  constexpr std::string_view kBefore = " \t\n\"'`=:([{,;|&>";
  const bool starts = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
  const bool flag =
      at >= 2 && text[at - 2] == '-' && std::isupper(static_cast<unsigned char>(text[at - 1]));  // -I/usr
  if (!starts && !flag) return 0;
  constexpr std::array<std::string_view, 20> kRoots = {
      "home", "root", "tmp", "var",  "usr", "opt", "etc",     "mnt",    "media", "srv",
      "work", "data", "dev", "proc", "sys", "run", "scratch", "lustre", "gpfs",  "nfs"};
  std::size_t end = at, parts = 0;
  std::string_view first;
  while (end < text.size() && text[end] == '/') {
    const std::size_t length = run_of(text, end + 1, is_path_char);
    if (length == 0) break;
    if (parts++ == 0) first = text.substr(end + 1, length);
    end += 1 + length;
  }
  if (parts == 0 || (parts == 1 && std::ranges::find(kRoots, first) == kRoots.end())) return 0;
  while (text[end - 1] == '.') --end;  // the end of a sentence
  return end - at;
}

std::size_t uuid_at(std::string_view text, std::size_t at) {
  constexpr std::array<std::size_t, 5> kGroups = {8, 4, 4, 4, 12};
  std::size_t end = at;
  for (std::size_t group = 0; group < kGroups.size(); ++group) {
    if (group > 0 && (end >= text.size() || text[end++] != '-')) return 0;
    if (run_of(text, end, is_hex) != kGroups[group]) return 0;
    end += kGroups[group];
  }
  return end - at;
}

std::size_t pci_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  const std::size_t domain = run_of(text, end, is_hex);
  if (domain != 4 && domain != 8) return 0;
  end += domain;
  for (int i = 0; i < 2; ++i) {
    if (end >= text.size() || text[end++] != ':' || run_of(text, end, is_hex) != 2) return 0;
    end += 2;
  }
  if (end + 1 >= text.size() || text[end] != '.' || !is_digit(text[end + 1])) return 0;
  return end + 2 - at;
}

// Four numbers up to 255. Versions of libraries look alike: those begin below 20, but not with 10 and three
// more.
std::size_t address_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  int first = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && (end >= text.size() || text[end++] != '.')) return 0;
    const std::size_t digits = run_of(text, end, is_digit);
    if (digits == 0 || digits > 3) return 0;
    const int value = std::atoi(std::string(text.substr(end, digits)).c_str());
    if (value > 255) return 0;
    if (i == 0) first = value;
    end += digits;
  }
  const bool goes_on =
      end + 1 < text.size() && (is_word(text[end]) || (text[end] == '.' && is_digit(text[end + 1])));
  return goes_on || (first < 20 && first != 10) ? 0 : end - at;
}

std::size_t mail_at(std::string_view text, std::size_t at) {
  const auto is_local = [](char c) { return is_word(c) || c == '.' || c == '+' || c == '%'; };
  const std::size_t local = run_of(text, at, is_local);
  std::size_t end = at + local;
  if (local == 0 || end >= text.size() || text[end] != '@') return 0;
  const auto is_domain = [](char c) { return is_word(c) || c == '.'; };
  std::string_view domain = text.substr(end + 1, run_of(text, end + 1, is_domain));
  while (domain.ends_with('.')) domain.remove_suffix(1);
  const std::size_t dot = domain.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || !std::isalpha(static_cast<unsigned char>(domain[dot + 1])))
    return 0;
  return local + 1 + domain.size();
}

struct Found {
  std::size_t length = 0;
  const char* kind = "";
  const char* said = "";
};

// What has a private form and begins at `at`.
Found form_at(std::string_view text, std::size_t at) {
  if (const std::size_t length = path_at(text, at)) return {length, "path", "an absolute path"};
  if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.')) {
    // GPU-1234...: a UUID may have a prefix
    if (text[at - 1] != '-') return {};
    if (const std::size_t length = uuid_at(text, at)) return {length, "uuid", "a UUID"};
    return {};
  }
  if (const std::size_t length = uuid_at(text, at)) return {length, "uuid", "a UUID"};
  if (const std::size_t length = pci_at(text, at)) return {length, "pci", "a PCI address"};
  if (const std::size_t length = address_at(text, at)) return {length, "address", "an IPv4 address"};
  if (const std::size_t length = mail_at(text, at)) return {length, "mail", "an e-mail address"};
  return {};
}

// A known name as a word of its own; a host's goes on over its domain.
std::size_t name_at(std::string_view text, std::size_t at, const std::string& kind, const std::string& name) {
  if (at > 0 && is_word(text[at - 1])) return 0;
  if (text.substr(at, name.size()) != name) return 0;
  std::size_t end = at + name.size();
  if (end < text.size() && is_word(text[end])) return 0;
  while (kind == "host" && end + 1 < text.size() && text[end] == '.' && is_word(text[end + 1]))
    end += 1 + run_of(text, end + 1, is_word);
  return end - at;
}

// Directory and file name of a path, where the name has an extension and so says what it is.
std::pair<std::string, std::string> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
  const bool file = dot != std::string::npos && dot > slash + 1 && dot + 1 < path.size() && slash > 0;
  return file ? std::pair{path.substr(0, slash), path.substr(slash)} : std::pair{path, std::string()};
}

}  // namespace

PrivateNames private_names() {
  PrivateNames names;
  // Names that are a word of everybody's name nobody.
  const std::set<std::string> kCommon = {"root", "localhost", "host", "node", "user", "test", "main"};
  const auto add = [&](const char* kind, const char* value) {
    const std::string name = value ? value : "";
    if (name.size() >= 3 && !kCommon.contains(name)) names.emplace_back(kind, name);
  };
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) {
    add("host", host);
    add("host", std::string(host).substr(0, std::string(host).find('.')).c_str());
  }
  for (const char* variable : {"HOSTNAME", "SLURMD_NODENAME", "SLURM_NODELIST", "SLURM_SUBMIT_HOST"})
    add("host", std::getenv(variable));
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER", "SLURM_JOB_USER"})
    add("user", std::getenv(variable));
  if (const passwd* account = ::getpwuid(::getuid())) add("user", account->pw_name);
  for (const auto& [kind, value] : gpu_identities()) add(kind.c_str(), value.c_str());
  std::ranges::sort(names, [](const auto& a, const auto& b) {  // the longer of two that overlap
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string Redactor::token(const std::string& kind, const std::string& value) {
  std::string& known = tokens_[{kind, value}];
  if (known.empty()) known = fmt::format("[{}-{}]", kind, ++counts_[kind]);
  return known;
}

std::string Redactor::redacted(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    Found found = form_at(text, at);
    for (const auto& [kind, name] : names_)
      if (const std::size_t length = name_at(text, at, kind, name); length > found.length)
        found = {length, kind.c_str(), ""};
    if (found.length == 0) {
      result += text[at++];
      continue;
    }
    const std::string value(text.substr(at, found.length));
    if (std::string_view(found.kind) == "path") {
      const auto [folder, file] = split_path(value);
      result += token("path", folder);
      if (!file.empty()) {
        result += '/';
        result += redacted(std::string_view(file).substr(1));
      }
    } else {
      result += token(found.kind, value);
    }
    at += found.length;
  }
  return result;
}

Json Redactor::redacted_event(Json event) {
  const std::string what = event.value("event", "");
  for (auto& [key, value] : event.items()) {
    const Field field = field_of(what, key);
    if (field == Field::unlisted) value = token("field", value.dump());
    if (field == Field::text)
      for_each_string<Json>(
          value, [&](Json& text) { text = redacted(std::string_view(text.get_ref<const std::string&>())); });
  }
  return event;
}

void redact_folder(const std::string& folder, PrivateNames names) {
  Redactor redactor(std::move(names));
  const fs::path root(folder);
  const Ledger ledger = read_ledger(root / kLedgerFile);
  std::vector<Json> events;
  for (const Json& event : ledger.events) events.push_back(redactor.redacted_event(event));
  if (events != ledger.events) write_file(root / kLedgerFile, ledger_text(events));
  if (!fs::exists(root / kOutputFile)) return;
  const std::string output = read_file(root / kOutputFile), clean = redactor.redacted(output);
  if (clean != output) write_file(root / kOutputFile, clean);
}

Json redactions(const Ledger& ledger, const std::string& output) {
  static const std::regex kToken(R"(\[(path|host|user|serial|uuid|pci|address|mail|field)-[0-9]+\])");
  using Place = std::array<std::string, 3>;  // file, field, kind
  std::map<Place, std::map<std::string, int>> found;
  const auto look = [&](const std::string& file, const std::string& field, const std::string& text) {
    for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
      std::smatch match;
      const std::string head = text.substr(at, 32);
      if (std::regex_search(head, match, kToken, std::regex_constants::match_continuous))
        ++found[Place{file, field, match[1]}][match[0]];
    }
  };
  for (const Json& event : ledger.events)
    for (const auto& [key, value] : event.items()) {
      const std::string field = event["event"].get<std::string>() + "." + key;
      for_each_string<const Json>(value, [&](const Json& text) { look(kLedgerFile, field, text); });
    }
  look(kOutputFile, "", output);
  Json json = {{"schema", "h3.redaction.v1"}, {"replaced", Json::array()}};
  for (const auto& [place, tokens] : found) {
    int count = 0;
    for (const auto& [token, times] : tokens) count += times;
    json["replaced"].push_back({{"file", place[0]},
                                {"field", place[1]},
                                {"kind", place[2]},
                                {"count", count},
                                {"distinct", tokens.size()}});
  }
  return json;
}

std::string first_private(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (const Found found = form_at(text, at); found.length > 0)
      return fmt::format("{} at byte {}", found.said, at);
  return "";
}

std::string first_private_of_event(const Json& event) {
  std::string first;
  const std::string what = event.value("event", "");
  for (const auto& [key, value] : event.items()) {
    const std::string name = what + "." + key;
    const Field field = field_of(what, key);
    if (field == Field::unlisted && !(value.is_string() && value.get<std::string>().starts_with("[field-")))
      return fmt::format("field {} is not one of the ledger's", name);
    for_each_string<const Json>(value, [&](const Json& text) {
      const std::string found = first_private(std::string_view(text.get_ref<const std::string&>()));
      if (first.empty() && !found.empty()) first = fmt::format("{} in {}", found, name);
    });
  }
  return first;
}

}  // namespace h3::gate
