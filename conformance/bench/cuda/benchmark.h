// What a block costs on a Hopper GPU: its forward, its forward and backward, and every node of both, each
// recorded as a CUDA graph and run one at a time, so that another program's work can take turns with it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/execution/cuda_block.h"
#include "harness/execution/cuda_block_backward.h"
#include "harness/execution/cuda_graph.h"

namespace h3 {

inline constexpr double kCopyBytesPerSecond = 4.3e12;  // what a copy reaches on an H200

struct BenchmarkItem {
  std::string name;             // "block", "norm1", "block backward", "norm1 backward", "q_proj dX", ...
  double flops = 0, bytes = 0;  // of products and attention; read and written once, of the rest
};

class Benchmark {
 public:
  // Synthetic weights of block 0 and a synthetic stream of `rows` rows, all on the GPU. "block backward" is
  // forward and backward in one graph.
  Benchmark(std::int64_t rows, bool with_backward);
  Benchmark(const Benchmark&) = delete;

  const std::vector<BenchmarkItem>& items() const { return items_; }
  double microseconds(const std::string& name) const;  // of one repeat, on the GPU's clock

 private:
  using Launch = std::function<void(Stream)>;
  void take_inputs(std::int64_t rows);
  void add(const BenchmarkItem& item, const Launch& launch);
  void add_forward(std::int64_t rows);
  void add_backward(std::int64_t rows);
  double bytes_of(const Node& node) const;
  double bytes_of_backward(const Node& node) const;

  CudaBlock block_;
  std::optional<CudaBlockBackward> backward_;
  std::vector<BenchmarkItem> items_;
  std::map<std::string, std::unique_ptr<CudaGraph>> graphs_;
};

}  // namespace h3
