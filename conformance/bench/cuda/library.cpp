#include "conformance/bench/cuda/library.h"

#include <exception>
#include <memory>
#include <string>

#include "conformance/bench/cuda/benchmark.h"
#include "kernels/cuda/device.h"
#include "model/json.h"

#define H3_EXPORT extern "C" __attribute__((visibility("default")))

struct h3_bench {
  h3_bench(std::int64_t rows, bool with_backward) : benchmark(rows, with_backward) {}
  h3::Benchmark benchmark;
  std::string description;
};

namespace {

std::string last_error;

std::string described(const h3::Benchmark& benchmark, std::int64_t rows) {
  nlohmann::ordered_json json = {{"device", h3::cuda::device_name()},
                                 {"rows", rows},
                                 {"bytes_per_second", h3::kCopyBytesPerSecond},
                                 {"items", nlohmann::ordered_json::array()}};
  for (const auto& [name, flops, bytes] : benchmark.items()) {
    nlohmann::ordered_json item = {{"name", name}};
    if (flops > 0) item["flops"] = flops;
    if (bytes > 0) item["bytes"] = bytes;
    json["items"].push_back(item);
  }
  return json.dump();
}

// What `run` gives, or `otherwise` with the error's line kept: nothing is thrown across the C interface.
template <class Run, class Value>
Value guarded(Value otherwise, const Run& run) {
  try {
    last_error.clear();
    return run();
  } catch (const std::exception& error) {
    last_error = error.what();
    return otherwise;
  }
}

}  // namespace

H3_EXPORT h3_bench* h3_bench_open(std::int64_t rows, int with_backward) {
  return guarded(static_cast<h3_bench*>(nullptr), [&] {
    auto bench = std::make_unique<h3_bench>(rows, with_backward != 0);
    bench->description = described(bench->benchmark, rows);
    return bench.release();
  });
}

H3_EXPORT void h3_bench_close(h3_bench* bench) { delete bench; }

H3_EXPORT const char* h3_bench_describe(const h3_bench* bench) { return bench->description.c_str(); }

H3_EXPORT double h3_bench_run(const h3_bench* bench, const char* name) {
  return guarded(-1.0, [&] { return bench->benchmark.microseconds(name); });
}

H3_EXPORT const char* h3_bench_error(void) { return last_error.c_str(); }
