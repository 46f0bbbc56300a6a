#include "harness/parallel/rank_execution.h"

#include <algorithm>

#include "harness/execution/backward_chain.h"
#include "model/fingerprint.h"

namespace h3 {
namespace {

constexpr std::size_t kKnown = 6;  // tensors remembered; a step of the backward brings three or four

Config with_heads(Config config, std::int64_t heads) {
  config.num_attention_heads = heads;
  return config;
}

}  // namespace

RankExecution::RankExecution(const std::string& engine, const Config& config, const Graph& block,
                             std::int64_t rows, std::int64_t timesteps, const Plan& plan,
                             const Ownership& ownership, Exchange& exchange)
    : engine_(engine_named(engine, config)),
      own_heads_(engine_named(engine, with_heads(config, ownership.of(Kind::heads, exchange.rank()).count))),
      rows_(rows),
      timesteps_(timesteps),
      plan_(plan),
      ownership_(ownership),
      exchange_(exchange) {
  extents_ = {{"hidden_states", {rows, config.hidden_size}},
              {"temb", {timesteps, config.time_embed_dim}},
              {"adaln_indices", {rows, 1}},
              {"rotary_cos", {rows, config.rotary_dim()}},
              {"rotary_sin", {rows, config.rotary_dim()}}};
  // The table as its projection makes it, one row for each time: a view of (3 U, 6 H).
  for (const Node& node : block.nodes)
    extents_[node.name] =
        node.name == "adaln_projection" ? Extent{timesteps, kTags * node.cols} : Extent{rows, node.cols};
  for (const TensorSpec& spec : tensor_specs(config))
    extents_[spec.name] = {spec.shape[0], spec.shape.size() > 1 ? spec.shape[1] : 1};
}

Extent RankExecution::extent(const std::string& value) const {
  const auto found = extents_.find(value);
  require(found != extents_.end(), "rank {}: no value '{}'", exchange_.rank(), value);
  return found->second;
}

Layout RankExecution::home(const std::string& value) const {
  const auto found = plan_.homes.find(value);
  require(found != plan_.homes.end(), "plan {}: '{}' has no home", plan_.name, value);
  return found->second;
}

Part RankExecution::part(const std::string& value) const {
  return part_of(ownership_, home(value), extent(value), exchange_.rank());
}

Tensor RankExecution::parameter(const Weights& weights, const std::string& name) const {
  const Tensor whole = engine_->parameter(weights, name);
  if (home(name) == kWhole) return whole;
  const Tensor own = cut(whole, part_of(ownership_, kWhole, extent(name), 0), part(name));
  return whole.shape().size() == 1 ? own.reshaped({own.elements()}) : own;
}

Tensor RankExecution::scatter(const std::string& value, const Tensor& on_root) const {
  const Tensor mine = exchange_.rank() == 0 ? on_root : engine_->place(Tensor(on_root.dtype(), {0, 0}));
  const Layout to = home(value);
  const Tensor own = redistribute(mine, ownership_, kRoot, to, extent(value), exchange_, "packed rows");
  return on_root.shape().size() == 1 ? own.reshaped({own.elements()}) : own;
}

Tensor RankExecution::bring(const Tensor& tensor, const std::string& value, Layout from, Layout to,
                            const std::string& node) const {
  if (from == to) return tensor;
  for (const Known& known : known_)
    if (known.from.bytes() == tensor.bytes() && known.to == to) return known.result;
  Tensor result = redistribute(tensor, ownership_, from, to, extent(value), exchange_, node);
  if (tensor.dtype() == DType::i64) result = result.reshaped({result.elements()});
  known_.push_front({tensor, to, result});
  if (from == kWhole) known_.push_front({result, from, tensor});  // the way back costs nothing
  while (known_.size() > kKnown) known_.pop_back();
  return result;
}

const Execution& RankExecution::engine_for(Layout output) const {
  return output == columns_by(Kind::heads) ? *own_heads_ : *engine_;
}

Node RankExecution::local(const Node& node, Layout output) const {
  Node own = node;
  own.cols = part_of(ownership_, output, extent(node.name), exchange_.rank()).width();
  if (node.name == "adaln_projection") own.cols /= kTags;
  return own;
}

// Keys or values in the order in which this rank takes their blocks.
Tensor RankExecution::in_block_order(const Tensor& whole, const std::string& value) const {
  const std::vector<int>& order = plan_.key_blocks.at(std::size_t(exchange_.rank()));
  if (std::ranges::is_sorted(order)) return whole;
  Part ordered = part_of(ownership_, kWhole, extent(value), 0);
  std::vector<Tensor> blocks;
  const Tensor on_cpu = engine_->fetch(whole).reshaped({rows_, ordered.width()});
  Tensor result(on_cpu.dtype(), on_cpu.shape());
  std::int64_t at = 0;
  for (const int block : order) {
    const Run run = ownership_.of(Kind::rows, block);
    std::ranges::copy(on_cpu.row_range(run.first, run.count).byte_span(),
                      result.row_range(at, run.count).bytes());
    at += run.count;
  }
  return engine_->place(result);
}

// What no plan does: this rank's own inputs give a part of every sum, and the parts are added up.
Tensor RankExecution::added_by_a_collective(const Node& node, const Tensor& x, const Tensor& weight) const {
  const Extent whole = {rows_, node.cols};
  const Tensor operands[] = {x};
  const Tensor parameters[] = {weight};
  const Tensor mine = engine_->run(node, operands, parameters);
  std::vector<Tensor> outgoing(std::size_t(exchange_.ranks()), mine), parts(std::size_t(exchange_.ranks()));
  for (int rank = 0; rank < exchange_.ranks(); ++rank)
    parts[std::size_t(rank)] = engine_->place(Tensor(mine.dtype(), {whole.rows, whole.cols}));
  exchange_.swap(node.name, outgoing, parts);
  parts[std::size_t(exchange_.rank())] = mine;
  Tensor sum = parts[0];
  for (std::size_t rank = 1; rank < parts.size(); ++rank) sum = sum_of_gradients(*engine_, sum, parts[rank]);
  return sum;
}

Tensor RankExecution::run(const Node& node, std::span<const Tensor> inputs,
                          std::span<const Tensor> parameters) const {
  const auto planned = plan_.nodes.find(node.name);
  // A sum of two gradients: element by element, wherever they lie.
  if (node.row == "residual") return engine_->run(node, inputs, parameters);
  require(planned != plan_.nodes.end(), "plan {}: no node '{}'", plan_.name, node.name);
  const NodePlan::Pass& pass = planned->second.forward;

  if (std::ranges::count(plan_.summed_by_a_collective, node.name) > 0) {
    const NodePlan::Pass& by_inputs = planned->second.backward;
    const std::string &x = node.inputs[0], &w = node.parameters[0];
    const Tensor sum =
        added_by_a_collective(node, bring(inputs[0], x, home(x), by_inputs.inputs[0], node.name),
                              bring(parameters[0], w, home(w), by_inputs.parameters[0], node.name));
    return bring(sum, node.name, kWhole, home(node.name), node.name);
  }

  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& value = node.inputs[i];
    operands.push_back(bring(inputs[i], value, home(value), pass.inputs[i], node.name));
    if (node.name == "attention" && i > 0 && pass.inputs[i] == kWhole)
      operands.back() = in_block_order(operands.back(), value);
  }
  const Node own = local(node, pass.output);
  const Tensor y = engine_for(pass.output).run(own, operands, parameters);
  const Part made = part_of(ownership_, pass.output, extent(node.name), exchange_.rank());
  const Tensor at_home =
      bring(y.reshaped({made.height(), made.width()}), node.name, pass.output, home(node.name), node.name);
  return node.name == "adaln_projection" ? at_home.reshaped({kTags * timesteps_, node.cols}) : at_home;
}

NodeGradients RankExecution::backward(const Node& node, std::span<const Tensor> inputs,
                                      std::span<const Tensor> parameters, const Tensor& output,
                                      const Tensor& gradient) const {
  const auto planned = plan_.nodes.find(node.name);
  require(planned != plan_.nodes.end(), "plan {}: no node '{}'", plan_.name, node.name);
  const NodePlan::Pass& pass = planned->second.backward;
  const std::string what = node.name + " backward";

  const Tensor dy = bring(gradient, node.name, home(node.name), pass.output, what);
  // Only attention reads its output; a residual reads nothing of its stream.
  const Tensor y =
      node.name == "attention" ? bring(output, node.name, home(node.name), pass.output, what) : output;
  std::vector<Tensor> operands, own_parameters;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool unread = node.row == "adaln_gate_residual" && i == 0;
    operands.push_back(unread ? dy
                              : bring(inputs[i], node.inputs[i], home(node.inputs[i]), pass.inputs[i], what));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = node.parameters[i];
    const Tensor brought = redistribute(parameters[i], ownership_, home(name), pass.parameters[i],
                                        extent(name), exchange_, what);
    own_parameters.push_back(extent(name).cols == 1 ? brought.reshaped({brought.elements()}) : brought);
  }

  NodeGradients made =
      engine_for(pass.output).backward(local(node, pass.output), operands, own_parameters, y, dy);
  for (std::size_t i = 0; i < made.inputs.size(); ++i) {
    if (made.inputs[i].empty()) continue;
    made.inputs[i] = bring(made.inputs[i], node.inputs[i], pass.inputs[i], home(node.inputs[i]), what)
                         .reshaped(inputs[i].shape());
  }
  for (std::size_t i = 0; i < made.parameters.size(); ++i) {
    const std::string& name = node.parameters[i];
    made.parameters[i] = redistribute(made.parameters[i], ownership_, pass.parameters[i], home(name),
                                      extent(name), exchange_, what)
                             .reshaped(parameters[i].shape());
  }
  return made;
}

Boundaries RankExecution::boundaries(const Tensor& timesteps, const Tensor& positions,
                                     std::span<const Tensor> time_embedder) const {
  return engine_->boundaries(timesteps, positions, time_embedder);
}

}  // namespace h3
