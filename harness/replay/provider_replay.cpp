#include "harness/replay/provider_replay.h"

#include <algorithm>

#include "fixtures/path.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution_provider.h"
#include "model/digest.h"

namespace h3 {

namespace {

// The record's environment names cuDNN's version, and of cuBLAS only the PyTorch that brought it.
std::vector<ProviderLibrary> libraries_of(const ProviderExecution& provider, const std::string& recorded) {
  std::vector<ProviderLibrary> libraries;
  for (const auto& [name, version] : provider.libraries()) {
    std::optional<bool> as_recorded;
    if (recorded.find(name + " ") != std::string::npos)
      as_recorded = recorded.find(fmt::format("{} {},", name, version)) != std::string::npos;
    libraries.push_back({name, version, as_recorded});
  }
  return libraries;
}

}  // namespace

bool ProviderReplay::equal() const {
  return !nodes.empty() && std::ranges::all_of(nodes, [](const auto& node) { return node.verdict.equal; });
}

ProviderReplay replay_provider(
    const std::string& layout_name, const std::string& variant,
    const std::function<void(std::int64_t, std::int64_t, const std::string&)>& progress) {
  const auto provider = provider_execution(variant);
  const auto strict = cpu_execution();
  const Config config;
  const PackedLayout layout = named_layout(layout_name);
  const auto weights = open_weights("", kDefaultSeed, config);
  const auto record = ProviderRecord::load(fixture_path("block0.h5"), layout_name);
  require(record.has_value(), "provider: no record of layout {}", layout_name);

  const Graph graph = transformer_block(config, 0);
  const auto steps = std::int64_t(graph.nodes.size()) + 1;
  if (progress) progress(0, steps, "inputs");
  Values values = block_inputs(layout, *weights, kDefaultSeed, 0, *strict, nullptr).candidate;
  if (const auto mismatch = record->mismatch(weights->identity(), values); !mismatch.empty())
    fail("provider: not comparable with the record: {}", mismatch);

  ProviderReplay replay{layout_name,
                        variant,
                        cuda_device_name(),
                        record->environment(),
                        libraries_of(*provider, record->environment()),
                        {}};
  for (const Node& node : graph.nodes) {
    if (progress) progress(std::int64_t(replay.nodes.size()) + 1, steps, node.name);
    std::vector<Tensor> inputs, parameters;
    for (const auto& name : node.inputs) inputs.push_back(values.at(name));
    for (const auto& name : node.parameters) parameters.push_back(weights->tensor(name));
    ProviderReplayNode result;
    result.node = node.name;
    result.refused = provider->missing(node);
    const Execution& engine = result.refused.empty() ? static_cast<const Execution&>(*provider) : *strict;
    result.binding = engine.binding(node);
    const Tensor output = engine.run(node, inputs, parameters);
    result.sha256 = sha256_hex(output.byte_span());
    result.rows = output.elements() / node.cols;
    result.verdict = record->judge(node, output, result.sha256, config.attention_head_dim);
    values[node.name] = output;
    replay.nodes.push_back(std::move(result));
  }
  return replay;
}

}  // namespace h3
