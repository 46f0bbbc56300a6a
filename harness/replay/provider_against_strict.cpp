#include "harness/replay/provider_against_strict.h"

#include <algorithm>
#include <cstring>

#include "harness/compare/compare.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution_provider.h"
#include "model/digest.h"

namespace h3 {
namespace {

Tensor as_rows(const Tensor& y, const Node& node) {
  return y.reshaped({y.elements() / node.cols, node.cols});
}

NodeAgainstStrict compared(const Node& node, const Tensor& provider, const Tensor& strict) {
  NodeAgainstStrict result;
  result.node = node.name;
  result.elements = provider.elements();
  result.xxh3_128 = xxh3_128_hex(provider.byte_span());
  require(provider.elements() == strict.elements() && provider.dtype() == strict.dtype(),
          "provider: node '{}' is {}, the strict row's {}", node.name, to_string(provider.shape()),
          to_string(strict.shape()));
  if (!std::memcmp(provider.bytes(), strict.bytes(), provider.size_bytes())) return result;
  const Comparison found = compare(as_rows(provider, node), as_rows(strict, node));
  result.differing = found.differing;
  result.first = Drift{node.name, found.first_row, -1, found.first_differing % node.cols,
                       fmt::format("provider {}, strict {}", provider.at(found.first_differing),
                                   strict.at(found.first_differing))};
  return result;
}

}  // namespace

bool ProviderAgainstStrict::equal() const {
  return !nodes.empty() && std::ranges::all_of(nodes, [](const auto& node) {
    return node.refused.empty() && node.elements > 0 && node.differing == 0;
  });
}

ProviderAgainstStrict compare_provider(
    const PackedLayout& layout, const std::string& variant,
    const std::function<void(std::int64_t, const std::string&)>& progress) {
  const auto provider = provider_execution(variant);
  const auto strict = cuda_execution();
  const Config config;
  const auto weights = open_weights("", kDefaultSeed, config);
  const Graph graph = transformer_block(config, 0);

  if (progress) progress(0, "inputs");
  Values values = block_inputs(layout, *weights, kDefaultSeed, 0, *strict, nullptr).candidate;
  ProviderAgainstStrict result{variant,       cuda_device_name(),    layout.sha256(),
                               layout.rows(), provider->libraries(), {}};
  for (const Node& node : graph.nodes) {
    if (progress) progress(std::int64_t(result.nodes.size()) + 1, node.name);
    std::vector<Tensor> inputs, parameters;
    for (const auto& name : node.inputs) inputs.push_back(values.at(name));
    for (const auto& name : node.parameters) parameters.push_back(weights->tensor(name));
    const Tensor strict_answer = strict->run(node, inputs, parameters);
    if (const std::string refused = provider->missing(node); !refused.empty()) {
      result.nodes.push_back({node.name, refused, 0, 0, {}, {}});
      values[node.name] = strict_answer;
      continue;
    }
    const Tensor answer = provider->run(node, inputs, parameters);
    result.nodes.push_back(compared(node, answer, strict_answer));
    values[node.name] = answer;
  }
  return result;
}

}  // namespace h3
