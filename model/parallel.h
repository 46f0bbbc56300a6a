// One way to use several cores. Nothing computed here depends on how many there are: work is split over
// independent outputs only, never inside a sum.
#pragma once

#include <cstdint>
#include <functional>

namespace h3 {

// From set_thread_count, else H3_THREADS, else the machine's cores. At least 1.
int thread_count();
void set_thread_count(int count);  // 0 restores the default

// Calls body(first, last) on disjoint ranges of at most `grain` indices that together cover [begin, end), in
// any order. Called from inside another parallel_for it runs on the calling thread. The first exception is
// rethrown here; ranges not yet started are then dropped. `threads` = 0 means thread_count().
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t first, std::int64_t last)>& body, int threads = 0);

// body(0) ... body(count - 1), each once.
inline void parallel_for_each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  parallel_for(0, count, 1, [&](std::int64_t first, std::int64_t) { body(first); });
}

}  // namespace h3
