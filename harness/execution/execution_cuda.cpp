#ifdef H3_HAVE_CUDA
#include "harness/execution/execution_cuda.h"

#include <cstring>
#include <map>
#include <tuple>

#include "harness/execution/boundary_nodes_cuda.h"
#include "harness/execution/execution.h"
#include "harness/execution/node_backward_cuda.h"
#include "kernels/adaln_projection.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/synthetic.h"
#include "kernels/full_attention.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/mm_rope.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary_tables.h"
#include "kernels/swiglu.h"
#include "kernels/timestep_mlp.h"
#include "kernels/timestep_sinusoid.h"

namespace h3 {
namespace {

namespace strict = kernels::cuda;
using kernels::TablePart;

void require_hopper() {
  if (const std::string why = cuda::why_unavailable(); !why.empty()) fail("engine 'cuda': {}", why);
}

bool is_per_head(const Node& node) {
  return node.row == "h3_qk_rmsnorm_d128" || node.row == "h3_mm_rope_3axis_partial";
}

// Copies on the GPU of tensors that several nodes read. The CPU's handle is kept beside the copy, so that an
// address means one tensor for as long as it is known here.
class Uploads {
 public:
  Tensor of(const Tensor& host) {
    if (host.device() == Device::cuda) return host;  // placed already
    const Key key{host.bytes(), host.size_bytes()};
    if (const auto found = known_.find(key); found != known_.end())
      return found->second.device.reshaped(host.shape());
    Tensor device = cuda::upload(host);
    remember(host, device);
    return device;
  }

  void remember(const Tensor& host, const Tensor& device) {
    if (bytes_ + host.size_bytes() > kMostBytes) known_.clear(), bytes_ = 0;
    bytes_ += host.size_bytes();
    known_[{host.bytes(), host.size_bytes()}] = {host, device};
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t(6) << 30;
  using Key = std::tuple<const std::byte*, std::size_t>;
  struct Copy {
    Tensor host, device;
  };
  std::map<Key, Copy> known_;
  std::size_t bytes_ = 0;
};

// Indices are the same in every block of a model: checked, sorted and uploaded once. As above, the CPU's
// handle is kept.
class Indices {
 public:
  const cuda::RowIndex& of(const Tensor& host, std::int64_t limit) {
    if (known_.size() == kMost) known_.clear();
    return known_.try_emplace({host.bytes(), host.elements(), limit}, host, limit).first->second.index;
  }

 private:
  static constexpr std::size_t kMost = 16;
  struct Known {
    Known(const Tensor& host, std::int64_t limit) : host(host), index(host, limit) {}
    Tensor host;
    cuda::RowIndex index;
  };
  std::map<std::tuple<const std::byte*, std::int64_t, std::int64_t>, Known> known_;
};

// A node's operands on the GPU; the index of its modulation table, which comes before it, checked.
class OnGpu {
 public:
  OnGpu(Uploads& uploads, Indices& indices, std::span<const Tensor> inputs,
        std::span<const Tensor> parameters) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_index = inputs[i].dtype() == DType::i64;
      if (is_index) index_ = &indices.of(inputs[i], inputs[i - 1].rows());
      inputs_.push_back(is_index ? Tensor() : uploads.of(inputs[i]));
    }
    for (const auto& parameter : parameters) parameters_.push_back(uploads.of(parameter));
  }
  NodeOperands operands() const { return {inputs_, parameters_, index_, {}}; }

 private:
  std::vector<Tensor> inputs_, parameters_;
  const cuda::RowIndex* index_ = nullptr;
};

class CudaExecution : public Execution {
 public:
  explicit CudaExecution(const Config& config) : config_(config) { require_hopper(); }
  std::string name() const override { return "cuda"; }
  Device device() const override { return Device::cuda; }
  Binding binding(const Node&) const override { return Binding::row; }

  Tensor place(const Tensor& on_cpu) const override {
    return stays_on_cpu(on_cpu) ? on_cpu : cuda::upload(on_cpu);
  }
  Tensor fetch(const Tensor& placed) const override {
    return placed.device() == Device::cuda ? cuda::download(placed) : placed;
  }
  void wait() const override { cuda::synchronize(); }
  Tensor parameter(const Weights& weights, const std::string& name) const override {
    return device_parameter(weights, name);
  }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    if (is_boundary(node)) {
      const Tensor y = launch_boundary(node, config_, operands_of(node, inputs), on_gpu(parameters));
      cuda::synchronize();
      return as_inputs(inputs, y);
    }
    const OnGpu uploaded(uploads_, indices_, inputs, parameters);
    const std::int64_t rows = inputs[0].shape()[0];
    NodeOperands operands = uploaded.operands();
    if (node.name == "adaln_projection") operands.scratch = cuda::allocate(DType::bf16, inputs[0].shape());

    Tensor y = cuda::allocate(node.row == "residual" ? inputs[0].dtype() : DType::bf16,
                              {node.name == "adaln_projection" ? kTags * rows : rows, node.cols});
    launch_node(node, config_, operands, y, nullptr);
    cuda::synchronize();
    if (is_per_head(node)) y = y.reshaped({rows, config_.num_attention_heads, config_.attention_head_dim});
    return as_inputs(inputs, y);
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    if (is_boundary(node)) {
      NodeGradients made = launch_boundary_backward(node, config_, operands_of(node, inputs),
                                                    on_gpu(parameters), uploads_.of(gradient));
      for (auto* list : {&made.inputs, &made.parameters})
        for (Tensor& tensor : *list)
          if (!tensor.empty()) tensor = as_inputs(inputs, tensor);
      return made;
    }
    const OnGpu uploaded(uploads_, indices_, inputs, parameters);
    const NodeOperands operands = uploaded.operands();
    const Tensor dy = uploads_.of(gradient);
    BackwardBuffers buffers = allocate_backward(node, config_, operands);
    if (node.name == "attention") {
      attention_forward(config_, operands, buffers, nullptr);
      const Tensor again = cuda::download(buffers.output), given = fetch(output);
      require(std::memcmp(again.bytes(), given.bytes(), given.size_bytes()) == 0,
              "engine cuda: backward of node '{}': its output is not that of these inputs", node.name);
    }
    launch_node_backward(node, config_, operands, dy, buffers, nullptr);
    cuda::synchronize();

    NodeGradients result;
    for (const auto& on_gpu : buffers.gradients.inputs)
      result.inputs.push_back(on_gpu.empty() ? Tensor() : as_inputs(inputs, on_gpu));
    for (const auto& on_gpu : buffers.gradients.parameters)
      result.parameters.push_back(as_inputs(inputs, on_gpu));
    // A residual hands its gradient on as it is.
    if (result.inputs[0].empty()) result.inputs[0] = gradient;
    if (node.row == "residual") result.inputs[1] = gradient;
    return result;
  }

  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override {
    const std::int64_t steps = timesteps.elements(), rows = positions.rows(), angles = config_.rotary_dim();
    const auto fp32 = [](std::int64_t r, std::int64_t c) { return cuda::allocate(DType::fp32, {r, c}); };
    std::vector<Tensor> mlp;
    for (const auto& tensor : time_embedder) mlp.push_back(uploads_.of(tensor));
    Tensor sinusoid = fp32(steps, config_.freq_dim), inner = fp32(steps, config_.time_embed_hidden_dim),
           temb = fp32(steps, config_.time_embed_dim), cos = fp32(rows, angles), sin = fp32(rows, angles);
    strict::timestep_sinusoid(timesteps, sinusoid, nullptr);
    strict::timestep_mlp(sinusoid, mlp[0], mlp[1], mlp[2], mlp[3], inner, temb, nullptr);
    strict::rotary_tables(positions, config_.rope_theta, cos, sin, nullptr);
    cuda::synchronize();
    return {cuda::download(sinusoid), cuda::download(temb), cuda::download(cos), cuda::download(sin)};
  }

 private:
  static bool stays_on_cpu(const Tensor& tensor) {
    return tensor.dtype() == DType::i64 || tensor.dtype() == DType::fp64;
  }
  std::vector<Tensor> on_gpu(std::span<const Tensor> tensors) const {
    std::vector<Tensor> placed;
    for (const auto& tensor : tensors) placed.push_back(stays_on_cpu(tensor) ? tensor : uploads_.of(tensor));
    return placed;
  }
  // The sinusoid takes its few timesteps from the CPU.
  std::vector<Tensor> operands_of(const Node& node, std::span<const Tensor> inputs) const {
    return node.name == "timestep_sinusoid" ? std::vector<Tensor>{fetch(inputs[0])} : on_gpu(inputs);
  }
  // A result of placed inputs stays on the GPU; otherwise it comes back, and its copy is remembered.
  Tensor as_inputs(std::span<const Tensor> inputs, const Tensor& result) const {
    for (const auto& input : inputs)
      if (input.device() == Device::cuda) return result;
    const Tensor on_cpu = cuda::download(result);
    uploads_.remember(on_cpu, result);
    return on_cpu;
  }

  Config config_;
  mutable Uploads uploads_;
  mutable Indices indices_;
};

}  // namespace

void launch_node(const Node& node, const Config& config, const NodeOperands& operands, Tensor& y,
                 Stream stream) {
  const auto& [in, parameters, index, scratch, log_sum_exp] = operands;
  const std::string& n = node.name;
  const float norm_eps = float(config.norm_eps), qk_norm_eps = float(config.qk_norm_eps);
  const auto part = [&](std::size_t table, Modulation which) {
    return TablePart{in[table], std::int64_t(which)};
  };
  const auto by_head = [&](const Tensor& x) {
    return x.reshaped({x.shape()[0], config.num_attention_heads, config.attention_head_dim});
  };
  Tensor heads = is_per_head(node) ? by_head(y) : Tensor();

  if (n == "adaln_projection") {
    Tensor z = scratch;
    strict::adaln_projection(in[0], parameters[0], parameters[1], z, y, stream);
  } else if (node.row == "h3_rmsnorm" && in.size() == 1) {
    strict::rms_norm(in[0], parameters[0], norm_eps, y, stream);
  } else if (n == "norm1") {
    strict::modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_msa),
                               part(1, Modulation::scale_msa), *index, y, stream);
  } else if (n == "norm2") {
    strict::modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_mlp),
                               part(1, Modulation::scale_mlp), *index, y, stream);
  } else if (node.row == "h3_qk_rmsnorm_d128") {
    strict::qk_norm(by_head(in[0]), parameters[0], qk_norm_eps, heads, stream);
  } else if (node.row == "h3_mm_rope_3axis_partial") {
    strict::mm_rope(by_head(in[0]), in[1], in[2], heads, stream);
  } else if (n == "attention") {
    Tensor lse = log_sum_exp;
    strict::full_attention(by_head(in[0]), by_head(in[1]), by_head(in[2]), y, lse.empty() ? nullptr : &lse,
                           stream);
  } else if (n == "swiglu") {
    strict::swiglu(in[0], y, stream);
  } else if (node.row == "residual") {
    strict::residual(in[0], in[1], y, stream);
  } else if (n == "residual_attn") {
    strict::gate_residual(in[0], in[1], part(2, Modulation::gate_msa), *index, y, stream);
  } else if (n == "residual_mlp") {
    strict::gate_residual(in[0], in[1], part(2, Modulation::gate_mlp), *index, y, stream);
  } else if (parameters.size() == 1) {
    strict::linear(in[0], parameters[0], nullptr, y, stream);
  } else {
    fail("engine cuda: node '{}' has no row", n);
  }
}

Tensor device_parameter(const Weights& weights, const std::string& name) {
  const auto* synthetic = dynamic_cast<const SyntheticWeights*>(&weights);
  if (!synthetic) return cuda::upload(weights.tensor(name));
  const TensorSpec& spec = synthetic->spec(name);
  Tensor tensor = cuda::allocate(spec.dtype, spec.shape);
  cuda::fill_synthetic(synthetic->rule(name), tensor, nullptr);
  return tensor;
}

std::unique_ptr<Execution> cuda_execution(const Config& config) {
  return std::make_unique<CudaExecution>(config);
}

std::string cuda_device_name() {
  require_hopper();
  return cuda::device_name();
}

}  // namespace h3
#endif
