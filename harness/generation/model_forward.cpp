#include "harness/generation/model_forward.h"

#include <algorithm>

#include "harness/execution/graph_values.h"

namespace h3 {

std::set<std::string> fixed_nodes(const std::vector<Stage>& stages) {
  std::set<std::string> changing(std::begin(kStepInputs), std::end(kStepInputs)), fixed;
  for (const Stage& stage : stages) {
    std::set<std::string> local;  // the graph's own names of what changes
    for (std::size_t i = 0; i < stage.sources.size(); ++i)
      if (changing.contains(stage.sources[i])) local.insert(stage.graph.inputs[i]);
    for (const Node& node : stage.graph.nodes) {
      const bool changes =
          std::ranges::any_of(node.inputs, [&](const auto& input) { return local.contains(input); });
      if (changes) local.insert(node.name);
      (changes ? changing : fixed).insert(stage.value(node.name));
    }
  }
  return fixed;
}

ModelForward::ModelForward(const Execution& execution, const Weights& weights, bool keep_fixed)
    : execution_(execution), weights_(weights), stages_(model_stages(weights.config())) {
  if (keep_fixed) fixed_ = fixed_nodes(stages_);
}

Values ModelForward::evaluate(const Values& inputs) {
  Values values;
  for (const auto& [name, tensor] : inputs) values[name] = execution_.place(tensor);
  for (std::size_t place = 0; place < stages_.size(); ++place) {
    run_stage(place, values);
    std::erase_if(values, [&](const auto& value) {
      return value.first != kModelOutputs[0] && value.first != kModelOutputs[1] &&
             !read_after(place, value.first);
    });
  }
  first_ = false;
  Values outputs;
  for (const char* output : kModelOutputs) outputs[output] = execution_.fetch(values.at(output));
  return outputs;
}

void ModelForward::run_stage(std::size_t place, Values& values) {
  const Stage& stage = stages_[place];
  const Graph& graph = stage.graph;
  Values local;
  for (std::size_t i = 0; i < stage.sources.size(); ++i)
    if (const auto given = values.find(stage.sources[i]); given != values.end())
      local[graph.inputs[i]] = given->second;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const std::string name = stage.value(node.name);
    const bool fixed = fixed_.contains(name);
    if (!fixed || first_) {
      std::vector<Tensor> parameters;
      for (const auto& parameter_name : node.parameters) parameters.push_back(parameter(parameter_name));
      local[node.name] = execution_.run(node, pick(node.inputs, local), parameters);
      ++nodes_run_;
      if (fixed) kept_[name] = local[node.name];
    } else {
      local[node.name] = kept_.at(name);
    }
    if (read_after(place, name) || &stage == &stages_.back()) values[name] = local[node.name];
    release(local, graph, n);
  }
}

Tensor ModelForward::parameter(const std::string& name) {
  auto& known = parameters_[name];
  if (known.empty()) known = execution_.parameter(weights_, name);
  return known;
}

bool ModelForward::read_after(std::size_t place, const std::string& value) const {
  return std::any_of(stages_.begin() + std::ptrdiff_t(place) + 1, stages_.end(),
                     [&](const Stage& later) { return std::ranges::count(later.sources, value) > 0; });
}

}  // namespace h3
