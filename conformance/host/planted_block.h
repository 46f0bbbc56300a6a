// Block 0 of the reduced model with the fault of one control at one of its nodes: what a capsule is made of
// and a dump captured from.
#pragma once

#include "harness/execution/execution_over.h"
#include "harness/execution/graph_values.h"
#include "harness/execution/node_call.h"
#include "harness/power/controls/control.h"
#include "model/named_configs.h"

namespace h3 {

// The control's fault wherever its node runs, the strict rows elsewhere.
class FaultyExecution : public ExecutionOver {
 public:
  explicit FaultyExecution(const Control& control, const Config& config = config_named("reduced"))
      : ExecutionOver(cpu_execution(config)), control_(control) {}
  std::string node() const {
    return std::string(control_.where).substr(std::string(control_.where).rfind('.') + 1);
  }

  std::string name() const override { return std::string("control ") + control_.name; }
  Binding binding(const Node&) const override { return Binding::candidate; }
  Tensor run(const Node& at, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    if (at.name != node()) return base().run(at, inputs, parameters);
    return control_.plant->run(
        Call{base(), at, {inputs.begin(), inputs.end()}, {parameters.begin(), parameters.end()}, {}, {}, 0});
  }

 private:
  const Control& control_;
};

struct PlantedBlock {
  Config config = config_named("reduced");
  PackedLayout layout = named_layout("tiny");
  std::unique_ptr<Weights> weights = open_weights("", kDefaultSeed, config);
  std::unique_ptr<Execution> strict = cpu_execution(config);
  Graph graph = transformer_block(config, 0);
  Values inputs = block_inputs(layout, *weights, kDefaultSeed, 0, *strict, nullptr).candidate;

  // Every value, each node computed from this execution's own.
  Values run(const Execution& execution) const {
    Values values = inputs;
    for (const Node& node : graph.nodes)
      values[node.name] = execution.run(node, pick(node.inputs, values), load(node.parameters, *weights));
    return values;
  }
  NodeCall call(const std::string& name, const Values& values) const {
    const Node& node = graph.node(name);
    return {config, node, pick(node.inputs, values), load(node.parameters, *weights)};
  }
};

}  // namespace h3
