#ifdef H3_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#ifdef H3_HAVE_CUTLASS
#include "golden/cutlass/cutlass_product.h"
#endif
#include "harness/compare/compare.h"
#include "harness/execution/execution.h"
#include "harness/execution/vendor_blas.h"
#include "harness/replay/product_race.h"
#include "kernels/cuda/device.h"
#include "kernels/linear.h"
#include "model/checkpoint.h"
#include "model/graph.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using cuda::check;
using Launch = std::function<void(Tensor& y, Stream stream)>;

constexpr const char* kNodes[] = {"q_proj", "o_proj", "ffn_gate_up", "ffn_down", "adaln_projection"};
constexpr int kWarmUps = 2;

// Times launches on one stream; overwriting more than the second-level cache holds makes each start cold.
class Clock {
 public:
  Clock() : flushed_(cuda::allocate(DType::bf16, {std::int64_t(kFlushBytes / 2)})) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    check(cudaEventCreate(&start_), "creating an event");
    check(cudaEventCreate(&stop_), "creating an event");
    cuda::synchronize();  // fills of new memory are on the default stream
  }
  ~Clock() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(stream_);
  }
  Clock(const Clock&) = delete;

  double milliseconds(const Launch& launch, Tensor& y) {
    check(cudaMemsetAsync(flushed_.bytes(), 0, flushed_.size_bytes(), stream_), "flushing the cache");
    check(cudaEventRecord(start_, stream_), "timing");
    launch(y, stream_);
    check(cudaEventRecord(stop_, stream_), "timing");
    check(cudaEventSynchronize(stop_), "timing");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, start_, stop_), "timing");
    return elapsed;
  }
  Stream stream() const { return stream_; }

 private:
  static constexpr std::size_t kFlushBytes = std::size_t(256) << 20;
  Tensor flushed_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

// A result that was poisoned before: what a candidate leaves unwritten differs.
Tensor result_of(const Launch& launch, Tensor& y, Stream stream) {
  check(cudaMemsetAsync(y.bytes(), 0xff, y.size_bytes(), stream), "poisoning a result");
  launch(y, stream);
  cuda::synchronize(stream);
  return cuda::download(y);
}

std::int64_t differing(const Tensor& ours, const Tensor& theirs) {
  if (!std::memcmp(ours.bytes(), theirs.bytes(), ours.size_bytes())) return 0;
  return compare(ours, theirs).differing;
}

ProductRace race(const Node& node, const RaceRequest& request, const Weights& weights, VendorBlas* vendor,
                 Clock& clock) {
  const Tensor weight = cuda::upload(weights.tensor(node.parameters[0]));
  ProductRace result;
  result.node = node.name;
  result.rows = node.name == "adaln_projection" ? std::min(request.rows, kRaceTimesteps) : request.rows;
  result.outputs = weight.rows();
  result.depth = weight.cols();
  const Tensor x = cuda::upload(synthetic_activation(request.seed, fmt::format("gemm.{}.x", node.name),
                                                     {result.rows, result.depth}, DType::bf16));
  Tensor y = cuda::allocate(DType::bf16, {result.rows, result.outputs});
  cuda::synchronize();

  std::vector<Launch> launches;
  const auto enter = [&](std::string name, Launch launch) {
    result.entries.push_back({std::move(name)});
    launches.push_back(std::move(launch));
  };
  enter("ours", [=](Tensor& to, Stream stream) { kernels::cuda::linear(x, weight, nullptr, to, stream); });
  for (int tile = 0; tile < kernels::cuda::tile_count(kernels::cuda::Product::forward); ++tile)
    enter(fmt::format("ours, tile {}", tile), [=](Tensor& to, Stream stream) {
      kernels::cuda::product_with_tile(kernels::cuda::Product::forward, tile, x, weight, nullptr, to, stream);
    });
#ifdef H3_HAVE_CUTLASS
  enter("CUTLASS", [=](Tensor& to, Stream stream) { second::cutlass_forward(x, weight, to, stream); });
#endif
  if (vendor)
    for (auto& product : vendor->products(x, weight, y))
      enter(product.name, [launch = product.launch](Tensor&, Stream stream) { launch(stream); });

  const Tensor ours = result_of(launches[0], y, clock.stream());
  for (std::size_t i = 0; i < launches.size(); ++i)
    result.entries[i].differing = differing(ours, result_of(launches[i], y, clock.stream()));
  for (int round = -kWarmUps; round < request.rounds; ++round)
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const double milliseconds = clock.milliseconds(launches[i], y);
      if (round >= 0) result.entries[i].milliseconds.push_back(milliseconds);
    }
  return result;
}

}  // namespace

RaceReport race_products(const RaceRequest& request) {
  require(request.rows > 0 && request.rounds > 0, "{} rows, {} rounds: expected at least one of each",
          request.rows, request.rounds);
  RaceReport report;
  report.device = cuda_device_name();
  report.rows = request.rows;
  report.rounds = request.rounds;
  report.seed = request.seed;
  const Config config;
  const auto weights = open_weights("", request.seed, config);
  const Graph graph = transformer_block(config, 0);
  const auto vendor = load_vendor_blas(report.vendor);
  if (vendor) report.vendor = vendor->version();
  Clock clock;
  for (const char* node : kNodes)
    report.products.push_back(race(graph.node(node), request, *weights, vendor.get(), clock));
  return report;
}

}  // namespace h3
#endif
