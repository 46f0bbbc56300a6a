#include "harness/replay/golden_rows.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "fixtures/hdf5.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "harness/execution/row_subset.h"
#include "model/layout.h"

namespace h3 {
namespace {

// One row of every kind (tag and timestep), and the last.
std::vector<std::int64_t> sampled_rows(const Tensor& adaln_indices) {
  std::map<std::int64_t, std::int64_t> first_of_kind;
  const auto indices = adaln_indices.values<std::int64_t>();
  for (std::size_t row = 0; row < indices.size(); ++row)
    first_of_kind.emplace(indices[row], std::int64_t(row));
  std::set<std::int64_t> rows = {std::int64_t(indices.size()) - 1};
  for (const auto& [kind, row] : first_of_kind) rows.insert(row);
  return {rows.begin(), rows.end()};
}

// Nodes that attention reads whole (keys, values), and all that these come from.
std::set<std::string> needed_whole(const Graph& graph) {
  std::set<std::string> whole = {"adaln_projection"};
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    for (std::size_t i = 0; i < node->inputs.size(); ++i)
      if (whole.contains(node->name) || !node->by_row(i)) whole.insert(node->inputs[i]);
  return whole;
}

// node -> golden of the sampled rows; of the modulation table, its first two rows.
Values golden_of(const std::string& layout_name, std::vector<std::int64_t>& rows) {
  const Config config;
  const PackedLayout layout = named_layout(layout_name);
  const auto weights = open_weights("", kDefaultSeed, config);
  const Graph graph = transformer_block(config, 0);
  const auto execution = golden_execution(true);
  const std::set<std::string> whole = needed_whole(graph);

  Values full = block_inputs(layout, *weights, kDefaultSeed, 0, *cpu_execution(), execution.get()).golden,
         sampled;
  rows = sampled_rows(full.at("adaln_indices"));
  for (const auto& node : graph.nodes) {
    std::vector<Tensor> parameters, inputs;
    for (const auto& name : node.parameters) parameters.push_back(weights->tensor(name));
    const bool run_whole = whole.contains(node.name);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      if (run_whole || !node.by_row(i))
        inputs.push_back(full.at(name));
      else
        inputs.push_back(full.contains(name) ? gather_rows(full.at(name), rows) : sampled.at(name));
    }
    const Tensor output = execution->run(node, inputs, parameters);
    if (run_whole) full[node.name] = output;
    const std::vector<std::int64_t> table_rows = {0, 1};
    sampled[node.name] =
        !run_whole ? output : gather_rows(output, node.name == "adaln_projection" ? table_rows : rows);
  }
  return sampled;
}

}  // namespace

void write_golden_rows(const std::string& path) {
  Hdf5Writer file(path);
  file.attribute("/", "exported_by", "h3 fixtures golden");
  file.attribute("/", "weights", open_weights("", kDefaultSeed, Config{})->identity());
  file.attribute("/", "arithmetic", "FP32 between nodes, products summed one by one in FP64, ascending");
  for (const char* layout : kGoldenLayouts) {
    std::vector<std::int64_t> rows;
    const Values golden = golden_of(layout, rows);
    file.write_vector(fmt::format("{}/sampled_rows", layout), rows);
    for (const auto& [node, tensor] : golden) file.write(fmt::format("{}/{}", layout, node), tensor);
  }
  file.close();
}

std::vector<std::string> check_golden_rows(const std::string& path, const std::string& layout) {
  const Hdf5Reader file(path);
  std::vector<std::string> differences;
  std::vector<std::int64_t> rows;
  const Values golden = golden_of(layout, rows);
  if (file.read_vector<std::int64_t>(layout + "/sampled_rows") != rows)
    differences.push_back(layout + ": other rows are sampled");
  for (const auto& [node, tensor] : golden) {
    const std::string name = layout + "/" + node;
    if (!file.contains(name)) {
      differences.push_back(name + ": not stored");
      continue;
    }
    const Tensor stored = file.read(name);
    if (stored.size_bytes() != tensor.size_bytes() ||
        std::memcmp(stored.bytes(), tensor.bytes(), tensor.size_bytes()))
      differences.push_back(name + ": other bytes");
  }
  return differences;
}

}  // namespace h3
