// Work over an index range on the machine's cores. Which thread does which part is not fixed, so a body must
// give the same result for any split: it writes only its own part.
#pragma once

#include <cstdint>
#include <functional>

namespace h3 {

int core_count();  // from H3_THREADS, else the machine's; at least 1

// Calls body(first, last) for consecutive pieces of [0, count), each of at most `grain`, on up to `threads`
// threads (0: all cores), the caller's included. Returns when all are done; the first exception is thrown to
// the caller.
void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body, int threads = 0);

}  // namespace h3
