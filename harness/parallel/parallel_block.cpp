#include "harness/parallel/parallel_block.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "harness/compare/compare.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/graph_values.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

// Every tensor made once for all ranks of a process.
class KeptWeights : public Weights {
 public:
  explicit KeptWeights(std::unique_ptr<Weights> made) : made_(std::move(made)) {}
  const Config& config() const override { return made_->config(); }
  std::string identity() const override { return made_->identity(); }
  Tensor tensor(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    Tensor& kept = kept_[name];
    if (kept.empty()) kept = made_->tensor(name);
    return kept;
  }

 private:
  std::unique_ptr<Weights> made_;
  mutable std::mutex mutex_;
  mutable Values kept_;
};

// The GPU makes its synthetic tensors itself, and faster than a copy would be.
std::unique_ptr<Weights> weights_of(const ParallelRequest& request, const Config& config) {
  auto made = open_weights("", request.seed, config);
  return request.engine == "cpu" ? std::make_unique<KeptWeights>(std::move(made)) : std::move(made);
}

std::vector<Tensor> parameters_of(const Execution& execution, const Node& node, const Weights& weights) {
  std::vector<Tensor> parameters;
  for (const auto& name : node.parameters) parameters.push_back(execution.parameter(weights, name));
  return parameters;
}

using OnValue = std::function<void(const std::string& value, bool gradient, const Tensor& tensor)>;

// One rank or one of many: the same walk.
void walk(const Execution& execution, const Graph& graph, const Weights& weights, Values values,
          const Tensor& output_gradient, const OnValue& on_value) {
  for (const Node& node : graph.nodes) {
    values[node.name] =
        execution.run(node, pick(node.inputs, values), parameters_of(execution, node, weights));
    on_value(node.name, false, values[node.name]);
  }
  if (output_gradient.empty()) return;
  BackwardChain chain(execution, graph, std::move(values), output_gradient);
  while (!chain.done()) {
    const BackwardStep step = chain.step(parameters_of(execution, chain.next(), weights));
    for (const auto& [value, gradient] : step.complete) on_value(value, true, gradient);
  }
}

Tensor placed(const Execution& execution, const Tensor& tensor) {
  return tensor.empty() ? tensor : execution.place(tensor);
}

RankValue compared(const std::string& value, bool gradient, const Tensor& whole, const Tensor& mine,
                   Extent extent, const Part& part, int rank, const Config& config) {
  RankValue result{value, gradient, mine.elements(), 0, {}};
  const Tensor matrix = whole.reshaped({extent.rows, extent.cols});
  const Tensor expected = cut(matrix, {{{0, extent.rows}}, {{0, extent.cols}}}, part);
  if (mine.size_bytes() == expected.size_bytes() && mine.dtype() == expected.dtype() &&
      std::memcmp(mine.bytes(), expected.bytes(), mine.size_bytes()) == 0)
    return result;
  const Comparison found = compare(expected, mine.reshaped(expected.shape()));
  const std::int64_t at = found.first_differing < 0 ? 0 : found.first_differing;
  const std::int64_t row = part.row(at / expected.cols()), col = part.col(at % expected.cols());
  result.differing = found.mismatch.empty() ? found.differing : expected.elements();
  result.first = Drift{gradient ? "gradient of " + value : value, row,
                       extent.cols == config.inner_dim() ? col / config.attention_head_dim : -1, col,
                       fmt::format("rank {}: {} of its {} elements are not those of one rank{}", rank,
                                   result.differing, result.elements, found.mismatch)};
  return result;
}

}  // namespace

OneRank::OneRank(const ParallelRequest& request)
    : config(config_named(request.config)),
      layout(named_layout(request.layout)),
      graph(transformer_block(config, request.block)),
      weights(weights_of(request, config)) {
  const auto engine = engine_named(request.engine, config);
  inputs = block_inputs(layout, *weights, request.seed, request.block, *engine, nullptr).candidate;
  if (request.backward) output_gradient = stand_in_output_gradient(layout, config, request.seed);
  Values on_engine;
  for (const auto& [name, value] : inputs) on_engine[name] = engine->place(value);
  walk(*engine, graph, *weights, on_engine, placed(*engine, output_gradient),
       [&](const std::string& value, bool gradient, const Tensor& tensor) {
         (gradient ? gradients : forward)[value] = engine->fetch(tensor);
       });
}

std::optional<Drift> RankReport::first_drift() const {
  for (const auto& value : values)
    if (value.first) return value.first;
  return {};
}

RankReport run_rank(const ParallelRequest& request, const OneRank& one, const Plan& plan, Exchange& exchange,
                    const RankFaults& faults) {
  require(!request.backward || !one.output_gradient.empty(), "parallel: one rank was run without backward");
  const int rank = exchange.rank();
  const Ownership ownership(one.config, one.layout.rows(), exchange.ranks());
  if (!faults.any_plan) plan.require_comparable(exchange.ranks());
  Holding holding = ownership.holding(rank);
  if (faults.declared) faults.declared(holding);
  std::vector<Holding> declared;
  for (const std::string& text : exchange.announce("what every rank holds", holding.to_text()))
    declared.push_back(holding_of_text(text, int(declared.size())));
  ownership.require_comparable(declared);

  const RankExecution execution(request.engine, one.config, one.graph, one.layout.rows(),
                                std::int64_t(one.layout.timesteps.size()), plan, ownership, exchange);
  // What goes in lies on rank 0; every rank gets its rows and, with them, what describes them.
  Values mine;
  for (const auto& name : one.graph.inputs)
    mine[name] = name == "temb" ? execution.place(one.inputs.at(name))
                                : execution.scatter(name, execution.place(one.inputs.at(name)));
  if (faults.inputs) faults.inputs(mine);
  const Tensor gradient =
      one.output_gradient.empty()
          ? Tensor()
          : execution.scatter(one.graph.nodes.back().name, execution.place(one.output_gradient));

  RankReport report;
  report.rank = rank;
  walk(execution, one.graph, *one.weights, mine, gradient,
       [&](const std::string& value, bool is_gradient, const Tensor& tensor) {
         const Tensor& whole = (is_gradient ? one.gradients : one.forward).at(value);
         report.values.push_back(compared(value, is_gradient, whole, execution.fetch(tensor),
                                          execution.extent(value), execution.part(value), rank, one.config));
       });
  report.traffic = exchange.traffic();
  return report;
}

std::vector<RankReport> run_logical_ranks(const ParallelRequest& request, const OneRank& one,
                                          const Plan& plan, const std::function<RankFaults(int)>& faults_of) {
  std::vector<RankReport> reports(std::size_t(request.ranks));
  run_logical_ranks(request.ranks, kExchangeLimit, [&](Exchange& exchange) {
    const int rank = exchange.rank();
    reports[std::size_t(rank)] =
        run_rank(request, one, plan, exchange, faults_of ? faults_of(rank) : RankFaults{});
  });
  return reports;
}

std::optional<Drift> first_drift(std::span<const RankReport> reports) {
  if (reports.empty()) return {};
  for (std::size_t i = 0; i < reports.front().values.size(); ++i)
    for (const RankReport& report : reports)
      if (report.values.at(i).first) return report.values[i].first;
  return {};
}

}  // namespace h3
