#include "harness/execution/node_call.h"

#include <algorithm>

namespace h3 {

std::size_t NodeCall::size_bytes() const {
  std::size_t bytes = gradient.empty() ? 0 : gradient.size_bytes();
  for (const auto* list : {&inputs, &parameters})
    for (const Tensor& tensor : *list) bytes += tensor.size_bytes();
  return bytes;
}

Tensor run(const NodeCall& call, const Execution& execution) {
  const Node& node = call.node;
  const Tensor output = execution.run(node, call.inputs, call.parameters);
  if (!call.backward()) return output;
  const NodeGradients all =
      execution.backward(node, call.inputs, call.parameters, output, call.gradient.reshaped(output.shape()));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == call.gradient_of) return all.inputs.at(i);
  for (std::size_t i = 0; i < node.parameters.size(); ++i)
    if (node.parameters[i] == call.gradient_of) return all.parameters.at(i);
  fail("node '{}' has no operand '{}'", node.name, call.gradient_of);
}

Tensor widened(const Tensor& tensor) {
  return tensor.dtype() == DType::bf16 ? tensor.to(DType::fp32) : tensor;
}

std::vector<Tensor> widened(std::span<const Tensor> tensors) {
  std::vector<Tensor> wide;
  for (const Tensor& tensor : tensors) wide.push_back(widened(tensor));
  return wide;
}

NodeCall widened(const NodeCall& call) {
  NodeCall wide = call;
  wide.inputs = widened(std::span<const Tensor>(call.inputs));
  wide.parameters = widened(std::span<const Tensor>(call.parameters));
  if (call.backward()) wide.gradient = widened(call.gradient);
  return wide;
}

}  // namespace h3
