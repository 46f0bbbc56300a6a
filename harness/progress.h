// A progress bar for work measured in bytes. It is drawn on standard error, and only when that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace h3 {

class Progress {
 public:
  Progress(std::string label, std::int64_t total_bytes);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::int64_t bytes);  // from any thread

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  const std::string label_;
  const std::int64_t total_;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  std::mutex lock_;
  std::int64_t done_ = 0;
  Clock::time_point drawn_ = start_;
};

}  // namespace h3
