#include "harness/replay/provider_against_strict.h"

#include <algorithm>
#include <cstring>

#include "harness/compare/compare.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution_provider.h"
#include "harness/execution/graph_values.h"
#include "model/digest.h"
#include "model/stages.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

Tensor as_rows(const Tensor& y, const Node& node) {
  return y.reshaped({y.elements() / node.cols, node.cols});
}

// A node that both sides compute, by the names of the values around it.
struct Question {
  std::string name;
  Node node;
  std::vector<std::string> inputs;
};

NodeAgainstStrict compared(const Question& question, const Tensor& provider, const Tensor& strict) {
  const Node& node = question.node;
  NodeAgainstStrict result;
  result.node = question.name;
  result.elements = provider.elements();
  result.xxh3_128 = xxh3_128_hex(provider.byte_span());
  require(provider.elements() == strict.elements() && provider.dtype() == strict.dtype(),
          "provider: node '{}' is {}, the strict row's {}", question.name, to_string(provider.shape()),
          to_string(strict.shape()));
  if (!std::memcmp(provider.bytes(), strict.bytes(), provider.size_bytes())) return result;
  const Comparison found = compare(as_rows(provider, node), as_rows(strict, node));
  result.differing = found.differing;
  result.first = Drift{question.name, found.first_row, -1, found.first_differing % node.cols,
                       fmt::format("provider {}, strict {}", provider.at(found.first_differing),
                                   strict.at(found.first_differing))};
  return result;
}

// The model's names of a node's inputs.
std::vector<std::string> sources_of(const Stage& stage, const Node& node) {
  std::vector<std::string> sources;
  for (const std::string& input : node.inputs) {
    const auto given = std::ranges::find(stage.graph.inputs, input);
    sources.push_back(given == stage.graph.inputs.end()
                          ? stage.value(input)
                          : stage.sources[std::size_t(given - stage.graph.inputs.begin())]);
  }
  return sources;
}

// Both sides of one comparison.
struct Sides {
  explicit Sides(const std::string& variant) : provider(provider_execution(variant)) {}
  std::unique_ptr<ProviderExecution> provider;
  std::unique_ptr<Execution> strict = cuda_execution();
  Config config;
  std::unique_ptr<Weights> weights = open_weights("", kDefaultSeed, config);

  void ask(const std::vector<Question>& questions, Values values, const ProviderProgress& progress,
           ProviderAgainstStrict& result) const;
};

void Sides::ask(const std::vector<Question>& questions, Values values, const ProviderProgress& progress,
                ProviderAgainstStrict& result) const {
  result.libraries = provider->libraries();
  for (const auto& [name, node, sources] : questions) {
    if (progress) progress(std::int64_t(result.nodes.size()), std::int64_t(questions.size()), name);
    const auto inputs = pick(sources, values), parameters = load(node.parameters, *weights);
    const Tensor strict_answer = strict->run(node, inputs, parameters);
    if (const std::string refused = provider->missing(node); !refused.empty()) {
      result.nodes.push_back({name, refused, 0, 0, {}, {}});
      values[name] = strict_answer;
      continue;
    }
    const Tensor answer = provider->run(node, inputs, parameters);
    result.nodes.push_back(compared({name, node, sources}, answer, strict_answer));
    values[name] = answer;
  }
}

}  // namespace

bool ProviderAgainstStrict::equal() const {
  return !nodes.empty() && std::ranges::all_of(nodes, [](const auto& node) {
    return node.refused.empty() && node.elements > 0 && node.differing == 0;
  });
}

ProviderAgainstStrict compare_provider(const PackedLayout& layout, const std::string& variant,
                                       const ProviderProgress& progress) {
  const Sides sides(variant);
  std::vector<Question> questions;
  for (const Node& node : transformer_block(sides.config, 0).nodes)
    questions.push_back({node.name, node, node.inputs});
  ProviderAgainstStrict result{.part = "block 0",
                               .variant = variant,
                               .device = cuda_device_name(),
                               .inputs = "layout " + layout.sha256(),
                               .rows = layout.rows()};
  sides.ask(questions,
            block_inputs(layout, *sides.weights, kDefaultSeed, 0, *sides.strict, nullptr).candidate, progress,
            result);
  return result;
}

ProviderAgainstStrict compare_provider_refiner(std::int64_t text_rows, const std::string& variant,
                                               const ProviderProgress& progress) {
  const Sides sides(variant);
  std::vector<Question> questions;
  for (const Stage& stage : model_stages(sides.config))
    for (const Node& node : stage.graph.nodes)
      if (stage.value(node.name).starts_with("token_refiner.") || node.name == "context_embedder")
        questions.push_back({stage.value(node.name), node, sources_of(stage, node)});
  ProviderAgainstStrict result{.part = "refiner",
                               .variant = variant,
                               .device = cuda_device_name(),
                               .inputs = fmt::format("text_rows, synthetic, seed {}", kDefaultSeed),
                               .rows = text_rows};
  const Shape text = {text_rows, sides.config.text_dim};
  sides.ask(questions, {{"text_rows", synthetic_activation(kDefaultSeed, "text_rows", text, DType::bf16)}},
            progress, result);
  return result;
}

}  // namespace h3
