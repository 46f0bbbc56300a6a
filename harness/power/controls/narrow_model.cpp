#include "harness/power/controls/narrow_model.h"

#include <cstring>
#include <map>

#include "harness/compare/calibrated_bound.h"
#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/execution_over.h"
#include "harness/execution/node_call.h"
#include "harness/execution/row_subset.h"
#include "harness/full_model/full_model.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

Config narrow_config() {
  Config config = config_named("reduced");
  config.num_layers = 2;
  config.num_refiner_layers = 1;
  return config;
}

// An execution with faults at named nodes. It cannot know which block a node belongs to: the walk says so.
class Planted : public ExecutionOver {
 public:
  Planted(const Execution& base, const Plant& plant) : ExecutionOver(base), plant_(plant) {}
  void enter(const std::string& prefix) { prefix_ = prefix; }

  std::string name() const override { return "planted"; }
  bool is_here(const Node& node) const { return prefix_ + node.name == plant_.at; }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    if (!is_here(node) || !plant_.run) return base().run(node, inputs, parameters);
    return plant_.run(call(node, inputs, parameters));
  }
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    if (!is_here(node) || !plant_.backward)
      return base().backward(node, inputs, parameters, output, gradient);
    Call asked = call(node, inputs, parameters);
    asked.output = output;
    asked.gradient = gradient;
    return plant_.backward(asked);
  }

 private:
  Call call(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters) const {
    return {base(), node,    {inputs.begin(), inputs.end()}, {parameters.begin(), parameters.end()}, {},
            {},     calls_++};
  }

  const Plant& plant_;
  std::string prefix_;
  mutable std::int64_t calls_ = 0;
};

// Runs twin and candidate side by side at every node, and hands on the twin's values.
class SideBySide : public ExecutionOver {
 public:
  SideBySide(const NarrowModel& model, const Plant& plant, const Plant& both,
             const std::function<bool(std::int64_t)>& only_rows)
      : ExecutionOver(*model.strict),
        model_(model),
        twin_(*model.strict, both),
        candidate_(twin_, plant),
        plant_(plant),
        both_(both),
        only_rows_(only_rows) {}

  void enter(const std::string& prefix) {
    prefix_ = prefix;
    twin_.enter(prefix);
    candidate_.enter(prefix);
  }
  bool found() const { return found_.fault != FaultClass::none; }
  const Finding& finding() const { return found_; }

  std::string name() const override { return "side by side"; }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    const Tensor expected = twin_.run(node, inputs, parameters);
    if (!found() && !plant_.backward) look_at(node, inputs, parameters, expected);
    return expected;
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    NodeGradients expected = twin_.backward(node, inputs, parameters, output, gradient);
    if (!found() && plant_.backward) look_at_backward(node, inputs, parameters, output, gradient, expected);
    return expected;
  }

 private:
  void found_at(const std::string& where, FaultClass fault, const Tensor& expected, const Tensor& got,
                const std::string& detail) const {
    const Comparison difference = compare(expected, got);
    found_.where = where;
    found_.fault = fault;
    found_.detail = detail;
    found_.distance = difference.relative_l2;
    found_.rows = expected.shape()[0];
    const std::size_t stride = expected.size_bytes() / std::size_t(found_.rows);
    bool elsewhere = false;
    for (std::int64_t row = 0; row < found_.rows; ++row) {
      if (!std::memcmp(expected.bytes() + row * stride, got.bytes() + row * stride, stride)) continue;
      ++found_.rows_differing;
      elsewhere |= only_rows_ && !only_rows_(row);
    }
    if (elsewhere) found_.where += ", rows that the fault cannot reach";
  }

  void look_at(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
               const Tensor& expected) const {
    const std::string where = prefix_ + node.name;
    const Tensor got = candidate_.run(node, inputs, parameters),
                 again = candidate_.run(node, inputs, parameters);
    if (const auto drift = first_difference(where, got, again, "second run"))
      return found_at(where, FaultClass::not_repeatable, got, again, drift->to_string());
    const auto drift = first_difference(where, expected, got, "twin");
    if (!drift) {
      if (const auto batch = batch_drift(node, inputs, parameters, got))
        return found_at(where, FaultClass::not_repeatable, got, got, batch->to_string());
      if (candidate_.is_here(node)) found_ = {FaultClass::no_effect, where, "no word changed", 0.0};
      return;
    }
    found_at(where, classify(expected, got), expected, got, drift->to_string());
    if (!both_.at.empty()) return;  // the golden knows nothing of what both carry
    // The rule of block 0, isolated, with the twin in the provider's place.
    const Tensor truth = model_.golden->run(node, widened(inputs), widened(parameters)).reshaped(got.shape());
    found_.beyond_bound = !judge(calibrated_bound(truth, expected), compare(truth, got)).accepted;
  }

  std::optional<Drift> batch_drift(const Node& node, std::span<const Tensor> inputs,
                                   std::span<const Tensor> parameters, const Tensor& output) const {
    if (prefix_.empty()) return {};  // the boundaries' rows are looked at by gate rows
    const std::int64_t in_rows = inputs[0].shape()[0], per_input = output.shape()[0] / in_rows;
    for (const auto& batch : row_batches(in_rows)) {
      const std::vector<std::int64_t> rows = output_rows(batch.rows, per_input);
      const Tensor got = candidate_.run(node, inputs_of_rows(node, inputs, batch.rows), parameters);
      if (auto drift =
              first_difference(prefix_ + node.name, gather_rows(output, rows), got, batch.what, rows))
        return drift;
    }
    return {};
  }

  void look_at_backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                        const Tensor& output, const Tensor& gradient, const NodeGradients& expected) const {
    const NodeGradients got = candidate_.backward(node, inputs, parameters, output, gradient),
                        again = candidate_.backward(node, inputs, parameters, output, gradient);
    const std::string where = prefix_ + node.name + ".backward";
    const auto look = [&](const std::string& value, const Tensor& twin, const Tensor& one,
                          const Tensor& two) {
      if (found() || twin.empty()) return;
      if (const auto drift = first_difference(value, one, two, "second run"))
        found_at(where, FaultClass::not_repeatable, one, two, drift->to_string());
      else if (const auto drift = first_difference(value, twin, one, "twin"))
        found_at(where, classify(twin, one), twin, one, drift->to_string());
    };
    for (std::size_t i = 0; i < node.parameters.size(); ++i)
      look(node.parameters[i], expected.parameters[i], got.parameters[i], again.parameters[i]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      look(node.inputs[i], expected.inputs[i], got.inputs[i], again.inputs[i]);
    if (!found() && candidate_.is_here(node)) found_ = {FaultClass::no_effect, where, "no word changed", 0.0};
  }

  const NarrowModel& model_;
  Planted twin_, candidate_;
  const Plant &plant_, &both_;
  const std::function<bool(std::int64_t)>& only_rows_;
  std::string prefix_;
  mutable Finding found_;
};

}  // namespace

const NarrowModel& narrow_model() {
  static const NarrowModel model = [] {
    NarrowModel made;
    made.config = narrow_config();
    made.layout = named_layout("tiny");
    made.weights = open_weights("", kDefaultSeed, made.config);
    made.strict = cpu_execution(made.config);
    made.golden = golden_execution(false, made.config);
    return made;
  }();
  return model;
}

Finding first_finding(const NarrowModel& model, const Values& inputs, const Plant& plant, const Plant& both,
                      const std::function<bool(std::int64_t row)>& only_rows) {
  SideBySide execution(model, plant, both, only_rows);
  FullModel walk(execution, *model.weights, inputs);
  while (const Stage* stage = walk.next_forward()) {
    execution.enter(stage->prefix);
    walk.forward_stage();
    if (execution.found()) return execution.finding();
  }
  if (!plant.backward) return {};
  walk.start_backward(model_output_gradients(model.layout, model.config, kDefaultSeed));
  while (const Stage* stage = walk.next_backward()) {
    execution.enter(stage->prefix);
    walk.backward_stage();
    if (execution.found()) return execution.finding();
  }
  return {};
}

}  // namespace h3
