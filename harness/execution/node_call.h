// One call of a node with all that goes into it, apart from the graph, the weights and the layout it came
// from: what a reproducer keeps.
#pragma once

#include <string>
#include <vector>

#include "harness/execution/execution.h"

namespace h3 {

struct NodeCall {
  Config config;  // whose heads and epsilons count; widths are those of the operands
  Node node;
  std::vector<Tensor> inputs, parameters;
  // Of a backward: the input or parameter whose gradient is the result, and the gradient of the output.
  std::string gradient_of = {};  // empty: the result is the node's output
  Tensor gradient = {};

  bool backward() const { return !gradient_of.empty(); }
  std::size_t size_bytes() const;  // of all operands
};

// The result. Of a backward the execution first computes the output from the inputs.
Tensor run(const NodeCall& call, const Execution& execution);

// The same with BF16 operands in FP32, as the golden takes them.
NodeCall widened(const NodeCall& call);
Tensor widened(const Tensor& tensor);
std::vector<Tensor> widened(std::span<const Tensor> tensors);

}  // namespace h3
