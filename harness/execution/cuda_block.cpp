#ifdef H3_HAVE_CUDA
#include "harness/execution/cuda_block.h"

#include <algorithm>

#include "harness/execution/execution_cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/linear.h"
#include "kernels/qk_norm_rope.h"

namespace h3 {

CudaBlock::CudaBlock(const Config& config, const Graph& graph, const Weights& weights)
    : config_(config), graph_(graph) {
  for (const Node& node : graph_.nodes)
    for (const auto& name : node.parameters)
      if (!parameters_.contains(name)) parameters_[name] = cuda::upload(weights.tensor(name));
}

void CudaBlock::take(const std::map<std::string, Tensor>& inputs) {
  values_.clear();
  for (const auto& name : graph_.inputs)
    if (name != "adaln_indices") values_[name] = inputs.at(name);
  const std::int64_t rows = values_.at("hidden_states").rows(), tables = kTags * values_.at("temb").rows();
  index_.emplace(inputs.at("adaln_indices"), tables);
  values_["adaln_indices"] = Tensor();
  for (const Node& node : graph_.nodes)
    values_[node.name] =
        cuda::allocate(DType::bf16, {node.name == "adaln_projection" ? tables : rows, node.cols});
  scratch_ = cuda::allocate(DType::bf16, values_.at("temb").shape());
  log_sum_exp_ = Tensor();
  cuda::synchronize();  // the fills of new memory are on the default stream
}

void CudaBlock::poison_outputs() {
  for (const Node& node : graph_.nodes) cuda::poison(values_.at(node.name));
  cuda::synchronize();
}

const Tensor& CudaBlock::keep_log_sum_exp() {
  if (log_sum_exp_.empty())
    log_sum_exp_ =
        cuda::allocate(DType::fp32, {config_.num_attention_heads, values_.at("attention").shape()[0]});
  cuda::synchronize();
  return log_sum_exp_;
}

std::vector<Tensor> CudaBlock::inputs_of(const Node& node) const {
  std::vector<Tensor> inputs;
  for (const auto& name : node.inputs) inputs.push_back(values_.at(name));
  return inputs;
}

std::vector<Tensor> CudaBlock::parameters_of(const Node& node) const {
  std::vector<Tensor> parameters;
  for (const auto& name : node.parameters) parameters.push_back(parameters_.at(name));
  return parameters;
}

void CudaBlock::launch(const Node& node, Stream stream) {
  const auto inputs = inputs_of(node), parameters = parameters_of(node);
  launch_node(node, config_, {inputs, parameters, &*index_, scratch_, log_sum_exp_}, values_.at(node.name),
              stream);
}

void CudaBlock::launch(Norms norms, Stream stream) {
  for (const Node& node : graph_.nodes) {
    constexpr const char* kTogether[] = {"k_proj", "v_proj", "k_norm", "rope_q", "rope_k"};
    if (std::ranges::count(kTogether, node.name)) continue;
    if (node.name == "q_proj")
      launch_projections(stream);
    else if (node.name == "q_norm")
      launch_norms_and_rotations(norms, stream);
    else
      launch(node, stream);
  }
}

void CudaBlock::launch_projections(Stream stream) {
  std::vector<Tensor> weights, ys;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    weights.push_back(parameters_.at(graph_.node(name).parameters[0]));
    ys.push_back(values_.at(name));
  }
  kernels::cuda::linear(values_.at("norm1"), weights, ys, stream);
}

void CudaBlock::launch_norms_and_rotations(Norms norms, Stream stream) {
  const auto by_head = [&](const std::string& name) {
    const Tensor& x = values_.at(name);
    return x.reshaped({x.rows(), config_.num_attention_heads, config_.attention_head_dim});
  };
  const auto part = [&](const std::string& of) {
    const std::string norm = of + "_norm";
    return kernels::NormRope{by_head(of + "_proj"), parameters_.at(graph_.node(norm).parameters[0]),
                             by_head("rope_" + of), norms == Norms::kept ? by_head(norm) : Tensor()};
  };
  kernels::cuda::qk_norm_rope(part("q"), part("k"), float(config_.qk_norm_eps), values_.at("rotary_cos"),
                              values_.at("rotary_sin"), stream);
}

}  // namespace h3
#endif
