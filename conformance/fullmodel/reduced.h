// The reduced model as the cases of this gate see it: opened once, examined once per execution.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/execution/execution_over.h"
#include "harness/full_model/full_model_check.h"
#include "model/named_configs.h"

namespace h3 {

// The chained golden of one model for many candidates: computed for the first, recalled for the others. It
// answers in the order in which it is asked, which is the model's own.
class RecalledGolden : public ExecutionOver {
 public:
  explicit RecalledGolden(const Config& config) : ExecutionOver(golden_execution(false, config)) {}
  void start_again() { asked_ = asked_backward_ = 0; }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    const auto answer = [&] { return base().run(node, inputs, parameters); };
    return recalled(node, runs_, asked_++, answer);
  }
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    const auto answer = [&] { return base().backward(node, inputs, parameters, output, gradient); };
    return recalled(node, backwards_, asked_backward_++, answer);
  }

 private:
  template <class Answer>
  using Answers = std::vector<std::pair<std::string, Answer>>;  // by the question's number: node, answer

  template <class Answer, class Compute>
  static Answer recalled(const Node& node, Answers<Answer>& answers, std::size_t number,
                         const Compute& compute) {
    if (number == answers.size()) answers.emplace_back(node.name, compute());
    require(answers[number].first == node.name, "recalled golden: asked for {}, it has {}", node.name,
            answers[number].first);
    return answers[number].second;
  }

  mutable Answers<Tensor> runs_;
  mutable Answers<NodeGradients> backwards_;
  mutable std::size_t asked_ = 0, asked_backward_ = 0;
};

struct ReducedModel {
  Config config = config_named("reduced");
  FullModelBounds bounds = load_bounds("reduced");
  PackedLayout layout = named_layout(bounds.layout);
  std::unique_ptr<Weights> weights = open_weights("", bounds.seed, config);
  std::unique_ptr<Execution> golden = golden_execution(false, config), twin = cpu_execution(config);
  mutable RecalledGolden chained{config};

  FullModelReport examine(const Execution& candidate, const OnCompared& on_compared = {},
                          const std::vector<std::string>& swapped = {}) const {
    chained.start_again();
    return examine_full_model(candidate, {chained, *golden, *twin}, *weights, layout, bounds, {}, on_compared,
                              swapped);
  }
};

inline const ReducedModel& reduced_model() {
  static const ReducedModel model;
  return model;
}

}  // namespace h3
