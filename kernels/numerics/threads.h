// One process-wide way to use several cores. Nothing computed here depends on how many there are: work is
// split over independent outputs only, never inside a sum.
#pragma once

#include <cstdint>
#include <functional>

namespace h3::numerics {

// From H3_THREADS, else the hardware's count. At least 1.
int thread_count();
void set_thread_count(int count);

// Calls fn(first, last) on disjoint ranges of at most `grain` indices that together cover [begin, end).
// Called from inside another parallel_for it runs on the calling thread. The first exception is rethrown
// here; ranges not yet started are then dropped.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t first, std::int64_t last)>& fn);

}  // namespace h3::numerics
