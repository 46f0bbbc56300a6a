#include "harness/execution/swapped_nodes.h"

#include <algorithm>
#include <set>

#include "harness/compare/compare.h"
#include "harness/execution/execution_provider.h"
#include "model/stages.h"

namespace h3 {
namespace {

// The golden computes in FP32.
Tensor as_operand(const Tensor& tensor, Binding binding) {
  return binding == Binding::reference && tensor.dtype() == DType::bf16 ? tensor.to(DType::fp32) : tensor;
}

std::vector<Node> nodes_of(const Config& config) {
  std::vector<Node> nodes;
  for (const Stage& stage : model_stages(config))
    nodes.insert(nodes.end(), stage.graph.nodes.begin(), stage.graph.nodes.end());
  return nodes;
}

std::unique_ptr<Execution> other_of(const NodeSwap& swap, const Config& config) {
  if (swap.by == "golden") return golden_execution(false, config);
  require(swap.by == "provider", "swapped nodes: by '{}', expected provider or golden", swap.by);
  require(config == Config{}, "provider nodes: replayed at the released widths only (--config released)");
  auto provider = provider_execution("default");
  for (const Node& node : nodes_of(config))
    if (std::ranges::count(swap.nodes, node.name) > 0)
      if (const std::string missing = provider->missing(node); !missing.empty())
        fail("provider nodes: '{}': {}", node.name, missing);
  return provider;
}

}  // namespace

SwappedNodes::SwappedNodes(std::unique_ptr<Execution> base, std::unique_ptr<Execution> other,
                           const std::vector<std::string>& nodes)
    : ExecutionOver(std::move(base)), other_(std::move(other)) {
  for (const std::string& node : std::set<std::string>(nodes.begin(), nodes.end()))
    swapped_.push_back({node, other_->name()});
}

std::string SwappedNodes::name() const {
  std::vector<std::string> nodes;
  for (const SwappedNode& swapped : swapped_) nodes.push_back(swapped.node);
  return fmt::format("{}, {} by {}", base().name(), fmt::join(nodes, ", "), other_->name());
}

Binding SwappedNodes::binding(const Node& node) const {
  return found(node) ? other_->binding(node) : base().binding(node);
}

Tensor SwappedNodes::run(const Node& node, std::span<const Tensor> inputs,
                         std::span<const Tensor> parameters) const {
  const Tensor own = base().run(node, inputs, parameters);
  SwappedNode* const swapped = found(node);
  if (!swapped) return own;
  const auto fetched = [&](std::span<const Tensor> tensors) {
    std::vector<Tensor> operands;
    for (const Tensor& tensor : tensors)
      operands.push_back(as_operand(base().fetch(tensor), other_->binding(node)));
    return operands;
  };
  const Tensor other = other_->fetch(other_->run(node, fetched(inputs), fetched(parameters)))
                           .to(own.dtype())
                           .reshaped(own.shape());
  const Tensor known = base().fetch(own);
  ++swapped->runs;
  swapped->elements += other.elements();
  swapped->differing += compare(known, other).differing;
  return own.device() == Device::cpu ? other : base().place(other);
}

NodeGradients SwappedNodes::backward(const Node& node, std::span<const Tensor> inputs,
                                     std::span<const Tensor> parameters, const Tensor& output,
                                     const Tensor& gradient) const {
  return base().backward(node, inputs, parameters,
                         found(node) ? base().run(node, inputs, parameters) : output, gradient);
}

SwappedNode* SwappedNodes::found(const Node& node) const {
  const auto swapped = std::ranges::find(swapped_, node.name, &SwappedNode::node);
  return swapped == swapped_.end() ? nullptr : &*swapped;
}

std::unique_ptr<SwappedNodes> swap_nodes(std::unique_ptr<Execution> base, const NodeSwap& swap,
                                         const Config& config) {
  std::set<std::string> known;
  for (const Node& node : nodes_of(config)) known.insert(node.name);
  for (const std::string& node : swap.nodes)
    require(known.contains(node), "{} nodes: no node '{}', expected some of {}", swap.by, node,
            fmt::join(known, ", "));
  return std::make_unique<SwappedNodes>(std::move(base), other_of(swap, config), swap.nodes);
}

}  // namespace h3
