// Single nodes of a model computed by another execution, all others by the base: how much of a drift is
// theirs. Both are asked, so that what the swap changes is counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/execution/execution_over.h"

namespace h3 {

struct NodeSwap {
  std::string by;                  // "provider" (its default variant, on this GPU) or "golden"
  std::vector<std::string> nodes;  // as in model/graph.h, in every graph that has one; empty: no swap
};

struct SwappedNode {
  std::string node, by;
  std::int64_t runs = 0, elements = 0, differing = 0;  // words of all runs that the swap changed
};

class SwappedNodes : public ExecutionOver {
 public:
  SwappedNodes(std::unique_ptr<Execution> base, std::unique_ptr<Execution> other,
               const std::vector<std::string>& nodes);

  std::string name() const override;
  Binding binding(const Node& node) const override;
  // The other's value, rounded to the base's dtype.
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override;
  // The base's, at the inputs that it is given.
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override;

  const std::vector<SwappedNode>& swapped() const { return swapped_; }

 private:
  SwappedNode* found(const Node& node) const;

  std::unique_ptr<Execution> other_;
  mutable std::vector<SwappedNode> swapped_;
};

// Errors, one line: a node that the model does not have or that the other does not compute, an unknown `by`,
// what provider_execution says, a provider at other widths than the released ones.
std::unique_ptr<SwappedNodes> swap_nodes(std::unique_ptr<Execution> base, const NodeSwap& swap,
                                         const Config& config);

}  // namespace h3
