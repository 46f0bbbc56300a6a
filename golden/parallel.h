// Threads for the goldens. Work items write disjoint outputs, so no result depends on how many there are.
#pragma once

#include <cstdint>
#include <functional>

namespace h3::golden {

// 0 restores the machine's own count.
void set_thread_count(int threads);
int thread_count();

// body(0) ... body(count - 1), each once, in any order; returns when all are done and rethrows the first
// error.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace h3::golden
