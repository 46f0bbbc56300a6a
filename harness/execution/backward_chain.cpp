#include "harness/execution/backward_chain.h"

#include <algorithm>
#include <chrono>

#include "harness/execution/graph_values.h"

namespace h3 {
namespace {

void require_shapes(const BackwardStep& step, const char* what, std::span<const Tensor> operands,
                    std::span<const std::string> names, std::span<const Tensor> gradients) {
  require(gradients.size() == operands.size(), "backward of node '{}': {} gradients of its {} {}",
          step.node->name, gradients.size(), operands.size(), what);
  for (std::size_t i = 0; i < operands.size(); ++i)
    require(gradients[i].empty() || gradients[i].shape() == operands[i].shape(),
            "backward of node '{}': gradient of {} is {}, expected {}", step.node->name, names[i],
            to_string(gradients[i].shape()), to_string(operands[i].shape()));
}

}  // namespace

// As the refiner adds its residuals, in every execution.
Tensor sum_of_gradients(const Execution& execution, const Tensor& a, const Tensor& b) {
  const Node add = {"residual_attn", "residual", {"a", "b"}, {}, a.cols()};
  const Tensor operands[] = {a, b};
  return execution.run(add, operands, {});
}

BackwardChain::BackwardChain(const Execution& execution, const Graph& graph, Values forward,
                             const Tensor& gradient)
    : execution_(execution), graph_(graph), forward_(std::move(forward)), left_(graph.nodes.size()) {
  require(!graph.nodes.empty(), "backward of {}: no nodes", graph.name);
  add(graph.nodes.back().name, gradient);
}

BackwardChain::BackwardChain(const Execution& execution, const Graph& graph, Values forward, Values gradients)
    : execution_(execution),
      graph_(graph),
      forward_(std::move(forward)),
      reaching_(std::move(gradients)),
      left_(graph.nodes.size()) {}

const Node& BackwardChain::next() const {
  require(!done(), "backward of {}: every node has run", graph_.name);
  return graph_.nodes[left_ - 1];
}

void BackwardChain::add(const std::string& value, const Tensor& gradient) {
  const auto [known, first] = reaching_.try_emplace(value, gradient);
  if (!first) known->second = sum_of_gradients(execution_, known->second, gradient);
}

bool BackwardChain::complete(const std::string& value) const {
  return std::none_of(graph_.nodes.begin(), graph_.nodes.begin() + std::ptrdiff_t(left_),
                      [&](const Node& node) { return std::ranges::count(node.inputs, value) > 0; });
}

BackwardStep BackwardChain::step(std::vector<Tensor> parameters) {
  using Clock = std::chrono::steady_clock;
  BackwardStep step;
  const Node& node = *(step.node = &next());
  step.inputs = pick(node.inputs, forward_);
  step.parameters = std::move(parameters);
  step.output = forward_.at(node.name);
  require(reaching_.contains(node.name), "backward of {}: no gradient reaches '{}'", graph_.name, node.name);
  step.gradient = reaching_.at(node.name);

  const auto start = Clock::now();
  step.gradients = execution_.backward(node, step.inputs, step.parameters, step.output, step.gradient);
  step.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  require_shapes(step, "inputs", step.inputs, node.inputs, step.gradients.inputs);
  require_shapes(step, "parameters", step.parameters, node.parameters, step.gradients.parameters);

  --left_;
  forward_.erase(node.name);
  reaching_.erase(node.name);
  for (std::size_t i = 0; i < node.parameters.size(); ++i)
    step.complete.emplace_back(node.parameters[i], step.gradients.parameters[i]);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (step.gradients.inputs[i].empty()) continue;
    add(node.inputs[i], step.gradients.inputs[i]);
    if (complete(node.inputs[i])) step.complete.emplace_back(node.inputs[i], reaching_.at(node.inputs[i]));
  }
  return step;
}

}  // namespace h3
