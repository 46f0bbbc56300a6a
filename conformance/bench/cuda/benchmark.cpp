#include "conformance/bench/cuda/benchmark.h"

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/rotary_tables.h"
#include "model/checkpoint.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr std::int64_t kTimesteps = 3;
constexpr double kTargetMicroseconds = 300;  // short work is repeated inside its graph
constexpr int kMostRepeats = 30;

Tensor stand_in(const char* name, std::int64_t rows, std::int64_t cols) {
  return cuda::upload(synthetic_activation(kDefaultSeed, name, {rows, cols}, DType::bf16));
}

Graph block_on_this_gpu() {
  if (const std::string why = cuda::why_unavailable(); !why.empty()) fail("{}", why);
  return transformer_block({}, 0);
}

bool is_projection(const Node& node) {
  return node.name.ends_with("_proj") || node.name == "ffn_gate_up" || node.name == "ffn_down";
}

double size_of(const Tensor& tensor) { return double(tensor.size_bytes()); }

}  // namespace

Benchmark::Benchmark(std::int64_t rows, bool with_backward)
    : block_({}, block_on_this_gpu(), SyntheticWeights(kDefaultSeed)) {
  require(rows > 0, "a block of {} rows, expected at least one", rows);
  take_inputs(rows);
  if (with_backward) {
    backward_.emplace(block_);
    cuda::copy(stand_in("bench.output_gradient", rows, block_.config().hidden_size),
               backward_->output_gradient());
  }
  // Every buffer holds what its readers expect.
  for (const Node& node : block_.graph().nodes) block_.launch(node, nullptr);
  if (backward_) backward_->launch(nullptr);
  cuda::synchronize();
  add_forward(rows);
  if (backward_) add_backward(rows);
}

double Benchmark::microseconds(const std::string& name) const {
  const auto found = graphs_.find(name);
  require(found != graphs_.end(), "no work named '{}'", name);
  return found->second->microseconds();
}

void Benchmark::take_inputs(std::int64_t rows) {
  const Config& config = block_.config();
  Tensor index(DType::i64, {rows}), positions(DType::fp64, {rows, 3});
  for (std::int64_t s = 0; s < rows; ++s) {
    index.data<std::int64_t>()[s] = s % (kTags * kTimesteps);
    for (int axis = 0; axis < 3; ++axis)
      positions.data<double>()[3 * s + axis] = double((s >> (5 * axis)) % 32);
  }
  Tensor cos = cuda::allocate(DType::fp32, {rows, config.rotary_dim()}),
         sin = cuda::allocate(DType::fp32, {rows, config.rotary_dim()});
  kernels::cuda::rotary_tables(positions, config.rope_theta, cos, sin, nullptr);
  block_.take({{"hidden_states", stand_in("bench.hidden_states", rows, config.hidden_size)},
               {"temb", cuda::upload(synthetic_activation(kDefaultSeed, "bench.temb",
                                                          {kTimesteps, config.time_embed_dim}, DType::fp32))},
               {"adaln_indices", index},
               {"rotary_cos", cos},
               {"rotary_sin", sin}});
}

void Benchmark::add(const BenchmarkItem& item, const Launch& launch) {
  items_.push_back(item);
  const double once = CudaGraph(launch).microseconds();
  const int repeats = std::clamp(int(kTargetMicroseconds / once), 1, kMostRepeats);
  graphs_[item.name] = std::make_unique<CudaGraph>(launch, repeats);
}

void Benchmark::add_forward(std::int64_t rows) {
  add({"block"}, [this](Stream stream) { block_.launch(CudaBlock::Norms::not_kept, stream); });
  for (const Node& node : block_.graph().nodes) {
    BenchmarkItem item{node.name};
    if (node.name == "attention")
      item.flops = 4.0 * double(rows) * double(rows) * double(node.cols);
    else if (is_projection(node))
      item.flops = 2.0 * double(rows) * double(block_.parameter(node.parameters[0]).elements());
    else
      item.bytes = bytes_of(node);
    add(item, [this, &node](Stream stream) { block_.launch(node, stream); });
  }
}

void Benchmark::add_backward(std::int64_t rows) {
  add({"block backward"}, [this](Stream stream) {
    block_.launch(CudaBlock::Norms::not_kept, stream);
    backward_->launch(stream);
  });
  for (const Node& node : block_.graph().nodes) {
    const bool is_table = node.name == "adaln_projection";
    if (node.name == "k_proj" || node.name == "v_proj") continue;  // as q_proj
    if (is_table || is_projection(node)) {
      BenchmarkItem dx{node.name + " dX"}, dw{node.name + " dW"};
      const Tensor& weight = block_.parameter(node.parameters[0]);
      if (is_table)
        dx.bytes = dw.bytes = size_of(weight);
      else
        dx.flops = dw.flops = 2.0 * double(rows) * double(weight.elements());
      add(dx, [this, &node](Stream stream) { backward_->launch_input_gradient(node, stream); });
      add(dw, [this, &node](Stream stream) { backward_->launch_weight_gradient(node, stream); });
      continue;
    }
    BenchmarkItem item{node.name + " backward"};
    if (node.name == "attention")
      item.flops =
          10.0 * double(rows) * double(rows) * double(node.cols);  // five products, as a rule counted
    else
      item.bytes = bytes_of_backward(node);
    add(item, [this, &node](Stream stream) { backward_->launch(node, stream); });
  }
}

// Read and written once; the modulation table stays in the cache.
double Benchmark::bytes_of(const Node& node) const {
  double bytes = size_of(block_.value(node.name));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (const Tensor& in = block_.value(node.inputs[i]); !in.empty() && node.by_row(i)) bytes += size_of(in);
  for (const auto& name : node.parameters) bytes += size_of(block_.parameter(name));
  return bytes;
}

// The same: the gradient that comes, every row-by-row gradient that goes, and the operand that it belongs to;
// of a rotation not the operand but the angles.
double Benchmark::bytes_of_backward(const Node& node) const {
  const bool rotates = node.row == "h3_mm_rope_3axis_partial";
  const auto& written = backward_->written_by(node);
  double bytes = size_of(backward_->gradient(node.name));
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.by_row(i)) continue;
    if (!written.inputs[i].empty()) bytes += size_of(written.inputs[i]);
    if (written.inputs[i].empty() ? rotates : !rotates) bytes += size_of(block_.value(node.inputs[i]));
  }
  for (const auto& gradient : written.parameters) bytes += 2 * size_of(gradient);
  return bytes;
}

}  // namespace h3
