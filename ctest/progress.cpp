#include "ctest/progress.h"

#include <unistd.h>

#include "model/error.h"
#include "model/json.h"

namespace h3::gate {

Progress::Progress(std::string gate, std::string ledger, std::size_t expected)
    : gate_(std::move(gate)), ledger_(std::move(ledger)), expected_(expected), terminal_(::isatty(1) == 1) {}

void Progress::look() {
  std::ifstream file(ledger_, std::ios::binary);
  if (!file.seekg(seen_)) return;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // an unfinished line is read again at the next look
    seen_ += std::streamoff(line.size()) + 1;
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object()) continue;
    const std::string what = event.value("event", ""), name = event.value("case", "");
    if (what == "case_begin") current_ = name;
    if (what == "case_end") show_case_end(name, event.value("outcome", ""));
  }
  if (!terminal_ || expected_ == 0) return;
  constexpr std::size_t kWidth = 24;
  const std::size_t full = std::min(kWidth, done_ * kWidth / expected_);
  fmt::print("\r\033[K{} [{}{}] {}/{}{} {}", gate_, std::string(full, '='), std::string(kWidth - full, ' '),
             done_, expected_, red_ ? fmt::format(", {} red", red_) : "", current_.substr(0, 60));
  std::fflush(stdout);
}

void Progress::show_case_end(const std::string& name, const std::string& outcome) {
  const auto tenth = [&](std::size_t count) { return expected_ ? count * 10 / expected_ : 0; };
  const bool next_tenth = tenth(done_ + 1) != tenth(done_);
  ++done_;
  if (outcome != "passed") {
    ++red_;
    fmt::print("{}{} {}\n", terminal_ ? "\r\033[K" : "", outcome, name);
  } else if (!terminal_ && next_tenth) {
    fmt::print("{} {}/{}\n", gate_, done_, expected_);
  }
  std::fflush(stdout);
}

void Progress::finish() {
  if (terminal_) fmt::print("\r\033[K");
}

}  // namespace h3::gate
