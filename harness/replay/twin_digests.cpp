#include "harness/replay/twin_digests.h"

#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "harness/execution/graph_values.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/synthetic.h"

namespace h3 {

std::map<std::string, std::string> twin_digests(const std::string& layout,
                                                const std::set<std::string>& nodes) {
  const Config config;
  const Graph graph = transformer_block(config, 0);
  const auto engine = cpu_execution(config);
  const auto weights = open_weights("", kDefaultSeed, config);
  Values values = block_inputs(named_layout(layout), *weights, kDefaultSeed, 0, *engine, nullptr).candidate;
  std::map<std::string, std::string> digests;
  for (std::size_t n = 0; n < graph.nodes.size() && digests.size() < nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    values[node.name] = engine->run(node, pick(node.inputs, values), load(node.parameters, *weights));
    if (nodes.contains(node.name)) digests[node.name] = xxh3_128_hex(values[node.name].byte_span());
    release(values, graph, n);
  }
  for (const auto& name : nodes) require(digests.contains(name), "{}: no node of {}", name, graph.name);
  return digests;
}

}  // namespace h3
