#include "model/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace h3 {

int core_count() {
  const char* asked = std::getenv("H3_THREADS");
  return std::max(1, asked ? std::atoi(asked) : int(std::thread::hardware_concurrency()));
}

void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body, int threads) {
  const std::int64_t pieces = (count + grain - 1) / grain;
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto work = [&] {
    for (std::int64_t piece; (piece = next.fetch_add(1)) < pieces;) {
      try {
        body(piece * grain, std::min(count, (piece + 1) * grain));
      } catch (...) {
        const std::lock_guard lock(failure_lock);
        if (!failure) failure = std::current_exception();
        next = pieces;
      }
    }
  };
  const std::int64_t helpers = std::min<std::int64_t>(threads > 0 ? threads : core_count(), pieces) - 1;
  std::vector<std::jthread> team;
  for (std::int64_t i = 0; i < helpers; ++i) team.emplace_back(work);
  work();
  team.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace h3
