#include "harness/full_model/full_model.h"

#include <algorithm>

#include "harness/execution/graph_values.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

Tensor indices_tensor(const std::vector<std::int64_t>& indices) {
  Tensor tensor(DType::i64, {std::int64_t(indices.size())});
  std::ranges::copy(indices, tensor.data<std::int64_t>());
  return tensor;
}

std::int64_t count(const std::vector<std::int64_t>& indices) { return std::int64_t(indices.size()); }

}  // namespace

Values layout_inputs(const PackedLayout& layout) {
  return {
      {"timesteps", layout.timesteps_tensor()},
      {"positions", layout.positions_tensor()},
      {"adaln_indices", layout.adaln_indices_tensor()},
      {"timestep_indices", layout.timestep_indices_tensor()},
      {"text_indices", indices_tensor(layout.text_indices)},
      {"video_indices", indices_tensor(layout.video_indices)},
      {"audio_indices", indices_tensor(layout.audio_indices)},
  };
}

Values model_inputs(const PackedLayout& layout, const Config& config, std::uint64_t seed) {
  const auto rows = [&](const char* name, std::int64_t count, std::int64_t cols, DType dtype) {
    return synthetic_activation(seed, name, {count, cols}, dtype);
  };
  Values inputs = layout_inputs(layout);
  inputs["video_rows"] = rows("video_rows", count(layout.video_indices), config.video_row_dim(), DType::fp32);
  inputs["audio_rows"] =
      rows("audio_rows", count(layout.audio_indices), config.audio_in_channels, DType::fp32);
  inputs["text_rows"] = rows("text_rows", layout.text_rows(), config.text_dim, DType::bf16);
  return inputs;
}

Values model_output_gradients(const PackedLayout& layout, const Config& config, std::uint64_t seed) {
  const auto rows = [&](const std::string& name, std::int64_t count, std::int64_t cols) {
    return synthetic_activation(seed, "gradient." + name, {count, cols}, DType::fp32);
  };
  return {{"video_output", rows("video_output", count(layout.video_indices), config.video_row_dim())},
          {"audio_output", rows("audio_output", count(layout.audio_indices), config.audio_in_channels)}};
}

Values widened(Values values) {
  for (auto& [name, tensor] : values)
    if (tensor.dtype() == DType::bf16) tensor = tensor.to(DType::fp32);
  return values;
}

FullModel::FullModel(const Execution& execution, const Weights& weights, Values inputs)
    : execution_(execution), weights_(weights), stages_(model_stages(weights.config())) {
  for (const auto& [name, tensor] : inputs) values_[name] = execution.place(tensor);
}

void FullModel::observe(OnNode on_node, OnStep on_step) {
  on_node_ = std::move(on_node);
  on_step_ = std::move(on_step);
}

void FullModel::go_on_from(const FullModel& other, const std::function<Tensor(const Tensor&)>& take,
                           Scope scope) {
  forward_ = other.forward_;
  backward_ = other.backward_;
  values_.clear();
  reaching_.clear();
  const Stage* next = other.backward_ > 0 ? next_backward() : next_forward();
  require(next != nullptr, "full model: nothing is left to go on with");
  for (const auto& [name, value] : other.values_)
    if (std::ranges::count(next->sources, name) > 0 || (scope == Scope::all_stages && read_later(name)))
      values_[name] = take(value);
  for (const auto& [value, gradient] : other.reaching_) reaching_[value] = take(gradient);
}

const Stage* FullModel::next_forward() const {
  return forward_ < stages_.size() ? &stages_[forward_] : nullptr;
}

const Stage* FullModel::next_backward() const { return backward_ > 0 ? &stages_[backward_ - 1] : nullptr; }

FullModel::Named FullModel::forward_stage() {
  require(next_forward() != nullptr, "full model: every stage has run");
  const Stage& stage = stages_[forward_++];
  const Graph& graph = stage.graph;
  Values values = inputs_of(stage);
  Named compared;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Tensor output = execution_.run(node, pick(node.inputs, values), parameters_of(node));
    if (on_node_) on_node_(stage, node, output);
    values[node.name] = output;
    if (read_later(stage.value(node.name))) values_[stage.value(node.name)] = output;
    if (is_compared(stage, node)) compared.emplace_back(stage.value(node.name), output);
    release(values, graph, n);
  }
  return compared;
}

void FullModel::start_backward(const Values& output_gradients) {
  require(next_forward() == nullptr, "full model: backward before the forward pass is through");
  for (const char* output : kModelOutputs) {
    const auto given = output_gradients.find(output);
    require(given != output_gradients.end(), "full model: no gradient of {}", output);
    reaching_[output] = execution_.place(given->second);
  }
  backward_ = stages_.size();
}

FullModel::Named FullModel::backward_stage() {
  require(next_backward() != nullptr, "full model: every stage's backward has run");
  const std::size_t place = --backward_;
  const Stage& stage = stages_[place];
  const Graph& graph = stage.graph;

  Values gradients;
  for (const Node& node : graph.nodes)
    if (auto reaching = reaching_.extract(stage.value(node.name))) gradients[node.name] = reaching.mapped();
  if (gradients.empty()) {
    for (const Node& node : graph.nodes)
      require(node.parameters.empty(), "full model: no gradient reaches {}", stage.value(node.name));
    return {};
  }

  Values values = inputs_of(stage);
  for (const Node& node : graph.nodes) {
    values[node.name] = execution_.run(node, pick(node.inputs, values), parameters_of(node));
    if (on_node_) on_node_(stage, node, values[node.name]);
  }
  Named complete;
  Values of_inputs;
  BackwardChain chain(execution_, graph, std::move(values), std::move(gradients));
  while (!chain.done()) {
    const BackwardStep step = chain.step(parameters_of(chain.next()));
    if (on_step_) on_step_(stage, step);
    for (const auto& [value, gradient] : step.complete) {
      const auto made_by = std::ranges::find(graph.nodes, value, &Node::name);
      if (std::ranges::count(graph.inputs, value))
        of_inputs[value] = gradient;
      else if (made_by == graph.nodes.end())  // a parameter
        complete.emplace_back(value, gradient);
      else if (is_compared(stage, *made_by))
        complete.emplace_back(stage.value(value), gradient);
    }
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto gradient = of_inputs.find(graph.inputs[i]);
    if (gradient == of_inputs.end()) continue;
    const std::string& source = stage.sources[i];
    const auto [known, first] = reaching_.try_emplace(source, gradient->second);
    if (!first) known->second = sum_of_gradients(execution_, known->second, gradient->second);
    if (!read_before(source, place)) complete.emplace_back(source, known->second);
  }
  for (const Node& node : graph.nodes) values_.erase(stage.value(node.name));
  return complete;
}

Values FullModel::inputs_of(const Stage& stage) const {
  Values values;
  for (std::size_t i = 0; i < stage.sources.size(); ++i) {
    const auto found = values_.find(stage.sources[i]);
    require(found != values_.end(), "full model: {} reads '{}', which is not given", stage.graph.name,
            stage.sources[i]);
    values[stage.graph.inputs[i]] = found->second;
  }
  return values;
}

std::vector<Tensor> FullModel::parameters_of(const Node& node) const {
  std::vector<Tensor> parameters;
  for (const auto& name : node.parameters) parameters.push_back(execution_.parameter(weights_, name));
  return parameters;
}

bool FullModel::read_later(const std::string& value) const {
  return std::any_of(stages_.begin() + std::ptrdiff_t(forward_), stages_.end(),
                     [&](const Stage& later) { return std::ranges::count(later.sources, value) > 0; });
}

bool FullModel::read_before(const std::string& value, std::size_t stage) const {
  return std::any_of(stages_.begin(), stages_.begin() + std::ptrdiff_t(stage),
                     [&](const Stage& earlier) { return std::ranges::count(earlier.sources, value) > 0; });
}

}  // namespace h3
