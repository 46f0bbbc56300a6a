#include "harness/power/false_alarms.h"

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/compare/calibrated_bound.h"
#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/execution_over.h"
#include "harness/execution/graph_values.h"
#include "harness/execution/row_subset.h"
#include "harness/power/controls/narrow_model.h"
#include "model/synthetic_rule.h"

namespace h3 {
namespace {

using Permutation = std::vector<std::int64_t>;

Permutation shuffled(std::uint64_t seed, const std::string& name, std::int64_t count) {
  Permutation order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t key = synthetic_key(seed, name);
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[std::size_t(i)],
              order[mix64(key + std::uint64_t(i) * kSyntheticStep) % std::uint64_t(i + 1)]);
  return order;
}

Permutation inverse(const Permutation& order) {
  Permutation back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[std::size_t(order[i])] = std::int64_t(i);
  return back;
}

// The strict rows on operands in another order, and their results put back: the same sums, added otherwise.
class OtherOrder : public ExecutionOver {
 public:
  OtherOrder(const Execution& strict, std::uint64_t seed) : ExecutionOver(strict), seed_(seed) {}
  std::string name() const override { return "other order"; }

  Tensor run(const Node& node, std::span<const Tensor> in, std::span<const Tensor> weights) const override {
    if (is_product(node)) {
      const Permutation depth = shuffled(seed_, node.name, in[0].cols());
      const Tensor x[] = {gather_columns(in[0], depth)}, w[] = {gather_columns(weights[0], depth)};
      return base().run(node, x, w);
    }
    if (node.name == "attention") {
      const Permutation order = shuffled(seed_, node.name, in[1].shape()[0]);
      return gather_rows(base().run(node, gathered(in, order), weights), inverse(order));
    }
    return base().run(node, in, weights);
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> in, std::span<const Tensor> weights,
                         const Tensor& output, const Tensor& gradient) const override {
    if (is_product(node)) {  // dX sums over outputs, dW over rows
      const Permutation outputs = shuffled(seed_, node.name, weights[0].rows()),
                        order = shuffled(seed_ + 1, node.name, in[0].shape()[0]);
      const Tensor x[] = {gather_rows(in[0], order)}, w[] = {gather_rows(weights[0], outputs)};
      NodeGradients g =
          base().backward(node, x, w, output, gather_rows(gather_columns(gradient, outputs), order));
      g.inputs[0] = gather_rows(g.inputs[0], inverse(order));
      g.parameters[0] = gather_rows(g.parameters[0], inverse(outputs));
      return g;
    }
    if (node.name == "attention") {
      const Permutation order = shuffled(seed_, node.name, in[1].shape()[0]);
      NodeGradients g = base().backward(node, gathered(in, order), weights, gather_rows(output, order),
                                        gather_rows(gradient, order));
      for (Tensor& tensor : g.inputs) tensor = gather_rows(tensor, inverse(order));
      return g;
    }
    return base().backward(node, in, weights, output, gradient);
  }

 private:
  static bool is_product(const Node& node) { return node.row.ends_with("_gemm"); }
  static std::vector<Tensor> gathered(std::span<const Tensor> in, const Permutation& order) {
    std::vector<Tensor> all;
    for (const Tensor& tensor : in) all.push_back(gather_rows(tensor, order));
    return all;
  }
  std::uint64_t seed_;
};

// One element in 64 moved to the next word, up or down.
Tensor moved(const Tensor& tensor, std::uint64_t seed) {
  Tensor other = tensor.clone();
  const std::uint64_t key = synthetic_key(seed, "false_alarms.moved");
  for (std::int64_t i = 0; i < other.elements(); ++i) {
    const std::uint64_t draw = mix64(key + std::uint64_t(i) * kSyntheticStep);
    auto& word = other.data<Bf16>()[i];
    if (draw % 64 == 0 && to_float(word) != 0) word = Bf16(std::uint16_t(word) + (draw & 64 ? 1 : -1));
  }
  return other;
}

using Gradients = std::map<std::string, Tensor>;

struct BlockPass {
  Values forward;
  Gradients backward;
};

struct NarrowBlock {
  const NarrowModel& model = narrow_model();
  Graph graph = transformer_block(model.config, 0);
  BlockInputs inputs =
      block_inputs(model.layout, *model.weights, kDefaultSeed, 0, *model.strict, model.golden.get());
  Tensor gradient = stand_in_output_gradient(model.layout, model.config, kDefaultSeed);

  BlockPass run(const Execution& execution, Values values, const Tensor& output_gradient) const {
    BlockPass pass;
    for (const Node& node : graph.nodes)
      values[node.name] =
          execution.run(node, pick(node.inputs, values), load(node.parameters, *model.weights));
    for (const Node& node : graph.nodes) pass.forward[node.name] = values.at(node.name);
    BackwardChain chain(execution, graph, std::move(values), output_gradient);
    while (!chain.done())
      for (auto& [value, of_value] : chain.step(load(chain.next().parameters, *model.weights)).complete)
        pass.backward[value] = of_value;
    return pass;
  }
};

}  // namespace

const char* name_of(Honest variant) {
  switch (variant) {
    case Honest::unchanged:
      return "unchanged";
    case Honest::other_order:
      return "other_order";
    case Honest::rounded_inputs:
      return "rounded_inputs";
  }
  return "?";
}

double AlarmCount::upper_rate() const {
  // No alarm in n repeats: 1 - 0.05^(1/n). Otherwise the normal approximation, on the safe side by one alarm.
  if (repeats == 0) return 1;
  if (alarms == 0) return 1 - std::pow(0.05, 1.0 / double(repeats));
  const double rate = double(alarms + 1) / double(repeats);
  return std::min(1.0, rate + 1.645 * std::sqrt(rate / double(repeats)));
}

AlarmCount count_alarms(Honest variant, std::int64_t repeats,
                        const std::function<void(std::int64_t done)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  static const NarrowBlock block;
  const NarrowModel& model = block.model;
  static const BlockPass golden =
      block.run(*model.golden, block.inputs.golden, block.gradient.to(DType::fp32));
  static const BlockPass first = block.run(*model.strict, block.inputs.candidate, block.gradient);

  AlarmCount count;
  count.variant = variant;
  for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
    if (progress) progress(repeat);
    const std::uint64_t seed = kDefaultSeed + 1 + std::uint64_t(repeat) * 2;
    Values inputs = block.inputs.candidate;
    if (variant == Honest::rounded_inputs) inputs["hidden_states"] = moved(inputs.at("hidden_states"), seed);
    const OtherOrder reordered(*model.strict, seed);
    const Execution& execution =
        variant == Honest::other_order ? static_cast<const Execution&>(reordered) : *model.strict;
    const BlockPass got = block.run(execution, inputs, block.gradient);

    bool refused = false;
    count.tensors = 0;
    const auto look = [&](const std::string& name, const Tensor& truth, const Tensor& once, const Tensor& now,
                          const Bound& bound) {
      const Judgement judgement = judge(bound, compare(truth.reshaped(now.shape()), now));
      refused |= !judgement.accepted || (variant == Honest::unchanged && !identical(once, now));
      if (const double used = judgement.measured / judgement.limit; used > count.worst_used) {
        count.worst_used = used;
        count.worst = name;
      }
      ++count.tensors;
    };
    for (const auto& [name, tensor] : got.forward) {
      const Tensor& truth = golden.forward.at(name);
      look(name, truth, first.forward.at(name), tensor,
           calibrated_bound(truth.reshaped(tensor.shape()), first.forward.at(name)));
    }
    for (const auto& [name, tensor] : got.backward) {
      const Tensor& truth = golden.backward.at(name);
      look("d " + name, truth, first.backward.at(name), tensor,
           calibrated_gradient_bound(truth.reshaped(tensor.shape()), first.backward.at(name)));
    }
    count.alarms += refused;
    ++count.repeats;
  }
  count.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return count;
}

}  // namespace h3
