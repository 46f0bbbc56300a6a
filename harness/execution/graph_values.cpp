#include "harness/execution/graph_values.h"

#include <algorithm>

namespace h3 {

std::vector<Tensor> pick(const std::vector<std::string>& names, const Values& values) {
  std::vector<Tensor> picked;
  for (const auto& name : names) {
    const auto found = values.find(name);
    require(found != values.end(), "graph: no value '{}'", name);
    picked.push_back(found->second);
  }
  return picked;
}

std::vector<Tensor> load(const std::vector<std::string>& names, const Weights& weights) {
  std::vector<Tensor> loaded;
  for (const auto& name : names) loaded.push_back(weights.tensor(name));
  return loaded;
}

void release(Values& values, const Graph& graph, std::size_t done) {
  std::erase_if(values, [&](const auto& value) {
    if (value.first == graph.nodes.back().name) return false;
    for (std::size_t later = done + 1; later < graph.nodes.size(); ++later)
      if (std::ranges::count(graph.nodes[later].inputs, value.first)) return false;
    return true;
  });
}

}  // namespace h3
