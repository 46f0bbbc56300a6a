// Time and peak memory of a chained forward of block 0 at its real width: the candidate alone, without golden
// and checks.
#include "harness/replay.h"

#include <benchmark/benchmark.h>
#include <sys/resource.h>

namespace h3 {
namespace {

void forward(benchmark::State& state, const char* layout) {
  ReplayRequest request;
  request.layout = layout;
  request.golden = request.batch_rows = false;
  for (auto _ : state) benchmark::DoNotOptimize(replay_block(request));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_GB"] = double(usage.ru_maxrss) * 1024e-9;
}

BENCHMARK_CAPTURE(forward, block0_tiny, "tiny")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(forward, block0_small, "small")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace h3
