// The gradients of a graph in one execution, node after node in reverse execution order: every node's
// backward runs on the values of the forward pass and on the sum of what the node's consumers have left for
// it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "model/graph.h"

namespace h3 {

// One node's backward with all that went into it.
struct BackwardStep {
  const Node* node = nullptr;
  std::vector<Tensor> inputs, parameters;
  Tensor output, gradient;  // what the forward pass gave, and the gradient that reaches it
  NodeGradients gradients;
  // Gradients that are complete with this step, by the value they belong to: those of the node's parameters,
  // then those of its inputs which no earlier node reads.
  std::vector<std::pair<std::string, Tensor>> complete;
  double seconds = 0;  // of the execution's backward alone
};

// Two gradients of one value in the execution's arithmetic: R(a + b) in BF16, their sum in FP32.
Tensor sum_of_gradients(const Execution& execution, const Tensor& a, const Tensor& b);

class BackwardChain {
 public:
  // `forward`: every graph input and every node's output. `gradient` reaches the last node's output.
  BackwardChain(const Execution& execution, const Graph& graph, Values forward, const Tensor& gradient);
  // Of a graph whose values are read elsewhere, too: `gradients` is what reaches these nodes from there.
  BackwardChain(const Execution& execution, const Graph& graph, Values forward, Values gradients);

  bool done() const { return left_ == 0; }
  const Node& next() const;
  // Values and gradients that nothing reads any more are dropped. Errors: no gradient reaches the node, or
  // its backward gave gradients of other shapes than its operands have.
  BackwardStep step(std::vector<Tensor> parameters);

 private:
  void add(const std::string& value, const Tensor& gradient);
  bool complete(const std::string& value) const;

  const Execution& execution_;
  const Graph& graph_;
  Values forward_, reaching_;  // by value: of the forward pass; its gradient so far
  std::size_t left_;           // nodes that have not run
};

}  // namespace h3
