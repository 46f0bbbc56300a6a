// A progress bar for work measured in bytes, or in named steps. It is drawn on standard error, and only when
// that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace h3 {

class Progress {
 public:
  enum class Unit { bytes, steps };
  Progress(std::string label, std::int64_t total, Unit unit = Unit::bytes);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::int64_t amount);                          // from any thread
  void step(std::int64_t done, const std::string& what);  // `done` steps are over, `what` comes next

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  const std::string label_;
  const std::int64_t total_;
  const Unit unit_;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  std::mutex lock_;
  std::int64_t done_ = 0;
  std::string what_;
  Clock::time_point drawn_ = start_;
};

}  // namespace h3
