#include "model/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "model/error.h"

namespace h3 {
namespace {

int default_thread_count() {
  if (const char* text = std::getenv("H3_THREADS")) {
    char* end = nullptr;
    const long count = std::strtol(text, &end, 10);
    require(end != text && *end == '\0' && count >= 1 && count <= 4096,
            "H3_THREADS is \"{}\": expected a number of threads from 1 to 4096", text);
    return int(count);
  }
  return std::max(1, int(std::thread::hardware_concurrency()));
}

std::atomic<int> chosen_count{0};  // 0: the default

thread_local bool inside_parallel_for = false;

}  // namespace

int thread_count() {
  static const int by_default = default_thread_count();
  const int chosen = chosen_count;
  return chosen > 0 ? chosen : by_default;
}

void set_thread_count(int count) {
  require(count >= 0, "thread count {}: expected at least 1, or 0 for the default", count);
  chosen_count = count;
}

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body, int asked) {
  require(grain >= 1, "parallel_for: grain {}, expected at least 1", grain);
  if (begin >= end) return;
  const std::int64_t ranges = (end - begin + grain - 1) / grain;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    const bool outer = std::exchange(inside_parallel_for, true);
    for (std::int64_t i; (i = next.fetch_add(1)) < ranges;) {
      const std::int64_t first = begin + i * grain;
      try {
        body(first, std::min(first + grain, end));
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = ranges;
      }
    }
    inside_parallel_for = outer;
  };

  const std::int64_t workers =
      inside_parallel_for ? 1 : std::min<std::int64_t>(asked > 0 ? asked : thread_count(), ranges);
  std::vector<std::thread> threads;
  try {
    for (std::int64_t i = 1; i < workers; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer threads than asked for do the same work.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace h3
