#include "harness/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace h3 {

Progress::Progress(std::string label, std::int64_t total, Unit unit)
    : label_(std::move(label)), total_(total), unit_(unit), visible_(::isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
}

void Progress::add(std::int64_t amount) {
  const std::lock_guard guard(lock_);
  done_ += amount;
  const auto now = Clock::now();
  if (visible_ && now - drawn_ >= std::chrono::milliseconds(100)) draw(now);
}

void Progress::step(std::int64_t done, const std::string& what) {
  const std::lock_guard guard(lock_);
  done_ = done;
  what_ = what;
  if (visible_) draw(Clock::now());
}

void Progress::draw(Clock::time_point now) {
  constexpr int kWidth = 30;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share = total_ > 0 ? std::min(1.0, double(done_) / double(total_)) : 1;
  const double rate = double(done_) / seconds;
  const int left = rate > 0 ? int(double(total_ - done_) / rate) : 0;
  const int filled = int(share * kWidth);
  fmt::print(stderr, "\r\x1b[K{} [{}{}] {:3.0f}%  ", label_, std::string(std::size_t(filled), '#'),
             std::string(std::size_t(kWidth - filled), '.'), 100 * share);
  if (unit_ == Unit::bytes)
    fmt::print(stderr, "{:.1f} of {:.1f} GB  {:.1f} GB/s  {}:{:02} left", double(done_) / 1e9,
               double(total_) / 1e9, rate / 1e9, left / 60, left % 60);
  else
    fmt::print(stderr, "{} of {}  {}  {:.0f} s", done_, total_, what_, seconds);
  std::fflush(stderr);
}

}  // namespace h3
