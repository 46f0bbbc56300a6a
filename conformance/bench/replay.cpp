// Time and peak memory of block 0 at its real width, chained forward, and forward with backward: the
// candidate alone, without golden and checks.
#include "harness/replay/replay.h"

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "harness/replay/replay_backward.h"

namespace h3 {
namespace {

template <class Replay>
void measure(benchmark::State& state, const char* layout, Replay replay) {
  ReplayRequest request;
  request.layout = layout;
  request.golden = request.batch_rows = false;
  for (auto _ : state) benchmark::DoNotOptimize(replay(request));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_GB"] = double(usage.ru_maxrss) * 1024e-9;
}

void forward(benchmark::State& state, const char* layout) {
  measure(state, layout, [](const ReplayRequest& request) { return replay_block(request); });
}

void with_backward(benchmark::State& state, const char* layout) {
  measure(state, layout, [](const ReplayRequest& request) { return replay_backward(request); });
}

BENCHMARK_CAPTURE(forward, block0_tiny, "tiny")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(forward, block0_small, "small")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(with_backward, block0_tiny, "tiny")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace h3
