#include "golden/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace h3::golden {
namespace {
std::atomic<int> chosen_threads{0};
}

void set_thread_count(int threads) { chosen_threads = threads; }

int thread_count() {
  const int chosen = chosen_threads;
  return chosen > 0 ? chosen : std::max(1, int(std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i; (i = next++) < count;) body(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  };
  const std::int64_t helpers = std::min<std::int64_t>(thread_count(), count) - 1;
  std::vector<std::jthread> threads;
  for (std::int64_t i = 0; i < helpers; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  if (error) std::rethrow_exception(error);
}

}  // namespace h3::golden
