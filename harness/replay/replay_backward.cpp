#include "harness/replay/replay_backward.h"

#include <algorithm>
#include <limits>

#include "fixtures/path.h"
#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/graph_values.h"
#include "harness/execution/row_subset.h"
#include "harness/replay/block_run.h"
#include "harness/replay/row_permutation.h"
#include "model/digest.h"

namespace h3 {
namespace {

// A graph input or a parameter: what no node computes.
bool is_leaf(const Graph& graph, const std::string& value) {
  return std::ranges::find(graph.nodes, value, &Node::name) == graph.nodes.end();
}

// The same node's backward once more, on the same operands.
std::optional<Drift> repeat_drift(const Execution& engine, const BackwardStep& step) {
  const Node& node = *step.node;
  const NodeGradients again = engine.backward(node, step.inputs, step.parameters, step.output, step.gradient);
  const std::string what = fmt::format("by {}, second run", node.name);
  for (std::size_t i = 0; i < node.parameters.size(); ++i)
    if (auto drift =
            first_difference(node.parameters[i], step.gradients.parameters[i], again.parameters[i], what))
      return drift;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (step.gradients.inputs[i].empty()) continue;
    if (auto drift = first_difference(node.inputs[i], step.gradients.inputs[i], again.inputs[i], what))
      return drift;
  }
  return {};
}

// The gradients of inputs that are taken row by row, for the same rows alone and inside another sequence.
// Sums over rows (parameters, tables, keys and values) have no such rows.
std::optional<Drift> batch_drift(const Execution& engine, const BackwardStep& step) {
  const Node& node = *step.node;
  const std::int64_t in_rows = step.inputs[0].shape()[0], per_input = step.output.shape()[0] / in_rows;
  for (const auto& batch : row_batches(in_rows)) {
    const std::vector<std::int64_t> rows = output_rows(batch.rows, per_input);
    const NodeGradients got =
        engine.backward(node, inputs_of_rows(node, step.inputs, batch.rows), step.parameters,
                        gather_rows(step.output, rows), gather_rows(step.gradient, rows));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.by_row(i) || step.gradients.inputs[i].empty()) continue;
      const Tensor expected = gather_rows(step.gradients.inputs[i], batch.rows);
      if (auto drift = first_difference(node.inputs[i], expected, got.inputs[i],
                                        fmt::format("by {}, {}", node.name, batch.what), batch.rows))
        return drift;
    }
  }
  return {};
}

// Without a record there is no bound, but NaN, Inf and unwritten elements still fail.
GoldenError gradient_error(const Tensor& golden, const Tensor& candidate,
                           const std::optional<RecordedVerdict>& recorded) {
  const Comparison error = compare(golden, candidate);
  const Bound finite = {.relative_l2 = std::numeric_limits<double>::max()};
  const Judgement judgement = judge(recorded ? recorded->bound : finite, error);
  return {error.relative_l2,   error.max_abs,
          error.max_abs_index, recorded ? recorded->bound.relative_l2 : std::nullopt,
          judgement.accepted,  judgement.reason};
}

// Of gradients by heads, (S, heads, channels), the head is named.
GradientJudge judge_of(const std::optional<ProviderGradients>& record) {
  if (!record) return {};
  return
      [&](const std::string& value, const Tensor& golden, const Tensor& gradient, const std::string& sha256) {
        const ProviderGradient& recorded = record->gradient(value);
        const std::int64_t head_dim = gradient.shape().size() == 3 ? gradient.cols() : 0;
        RecordedVerdict verdict{recorded.bound(), record->judge(value, gradient, sha256, head_dim)};
        if (recorded.bytes && !golden.empty()) verdict.ulp = sampled_ulp(golden, gradient, *recorded.bytes);
        return verdict;
      };
}

// The block forward. Nothing is dropped: the backward reads it all.
Values forward(const BlockRun& run, const Execution& execution, Values values) {
  for (const auto& node : run.graph.nodes)
    values[node.name] = execution.run(node, pick(node.inputs, values), load(node.parameters, *run.weights));
  return values;
}

void walk(const ForwardPass& pass, const GradientObserver& observe) {
  BackwardChain chain(pass.engine, pass.graph, pass.candidate, pass.output_gradient);
  while (!chain.done())
    for (const auto& [value, gradient] : chain.step(pass.parameters(chain.next())).complete)
      observe(value, gradient);
}

bool has_digest(const GradientResult& result, const Tensor& gradient) {
  return xxh3_128_hex(gradient.byte_span()) == result.xxh3_128;
}

// The whole backward once more: other memory, the same bytes.
void repeat(const ForwardPass& pass, BackwardReport& report) {
  walk(pass, [&](const std::string& value, const Tensor& gradient) {
    auto& first = *std::ranges::find(report.gradients, value, &GradientResult::value);
    first.passes_differing += !has_digest(first, gradient);
  });
}

// The packed rows arrive in another order: rows that change in the gradient of hidden_states, and other
// leaves (sums over rows) whose gradient changes.
void examine_permutation(const BlockRun& run, const ForwardPass& pass, const Tensor& stream_gradient,
                         BackwardReport& report) {
  const RowPermutation permutation(run.layout);
  ForwardPass permuted = pass;
  permuted.candidate = forward(run, *run.engine, permutation.at_entry(run.inputs.candidate));
  permuted.output_gradient = permutation.at_entry(pass.output_gradient);
  report.permuted_leaves_changed = 0;
  walk(permuted, [&](const std::string& value, const Tensor& gradient) {
    if (value == "hidden_states")
      report.permuted_rows_changed = permutation.rows_changed(stream_gradient, gradient);
    else if (is_leaf(run.graph, value))
      *report.permuted_leaves_changed += !has_digest(report.gradient(value), gradient);
  });
}

}  // namespace

std::optional<Drift> BackwardReport::first_drift() const {
  for (const auto& gradient : gradients)
    if (gradient.provider && gradient.provider->bytes && !gradient.provider->bytes->equal)
      return gradient.provider->bytes->first;
  return {};
}

std::optional<Drift> BackwardReport::first_golden_drift() const {
  for (const auto& gradient : gradients) {
    if (!gradient.golden || gradient.golden->accepted) continue;
    const std::int64_t cols = gradient.shape.back(), worst = gradient.golden->max_abs_index;
    return Drift{gradient.value, worst < 0 ? -1 : worst / cols, -1, worst < 0 ? -1 : worst % cols,
                 fmt::format("by {}, {}", gradient.node, gradient.golden->reason)};
  }
  return {};
}

std::optional<Drift> BackwardReport::first_repeat_drift() const {
  for (const auto& node : nodes)
    if (node.repeat_drift) return node.repeat_drift;
  for (const auto& gradient : gradients)
    if (gradient.passes_differing > 0)
      return Drift{gradient.value, -1, -1, -1,
                   fmt::format("by {}, digest differs in {} of {} later passes", gradient.node,
                               gradient.passes_differing, request.backward_passes - 1)};
  return {};
}

std::optional<Drift> BackwardReport::first_batch_drift() const {
  for (const auto& node : nodes)
    if (node.batch_drift) return node.batch_drift;
  return {};
}

Bindings BackwardReport::bindings() const {
  Bindings bindings;
  for (const auto& node : nodes) bindings.count(node.binding);
  return bindings;
}

const GradientResult& BackwardReport::gradient(const std::string& value) const {
  const auto found = std::ranges::find(gradients, value, &GradientResult::value);
  require(found != gradients.end(), "backward: no gradient of '{}'", value);
  return *found;
}

bool BackwardReport::accepted() const {
  return bindings().complete() && !first_golden_drift() && !first_repeat_drift() && !first_batch_drift() &&
         permuted_rows_changed.value_or(0) == 0 && permuted_leaves_changed.value_or(0) == 0;
}

BackwardReport examine_backward(ForwardPass pass, const ReplayRequest& asked, const GradientJudge& judge,
                                const ReplayProgress& progress, const GradientObserver& observe) {
  BackwardReport report;
  report.request = asked;
  report.graph = pass.graph.name;
  report.rows = pass.output_gradient.shape()[0];
  report.provider_recorded = judge != nullptr;

  const Node& last = pass.graph.nodes.back();
  BackwardChain chain(pass.engine, pass.graph, std::move(pass.candidate), pass.output_gradient);
  std::optional<BackwardChain> truth;
  const Tensor true_output_gradient = pass.golden ? pass.output_gradient.to(DType::fp32) : Tensor();
  if (pass.golden)
    truth.emplace(*pass.golden, pass.graph, std::move(pass.golden_values), true_output_gradient);

  const auto add = [&](const std::string& value, const Node* by, const Tensor& gradient,
                       const Tensor& golden) {
    GradientResult result{value,
                          by ? by->name : "",
                          by ? by->row : "",
                          gradient.dtype(),
                          gradient.shape(),
                          xxh3_128_hex(gradient.byte_span()),
                          sha256_hex(gradient.byte_span()),
                          {},
                          {}};
    if (judge) result.provider = judge(value, golden, gradient, result.sha256);
    if (truth) result.golden = gradient_error(golden, gradient, result.provider);
    if (observe) observe(value, gradient);
    report.gradients.push_back(std::move(result));
  };
  add(last.name, nullptr, pass.output_gradient, true_output_gradient);

  while (!chain.done()) {
    const Node& node = chain.next();
    if (progress) progress(std::int64_t(report.nodes.size()) + 1, node.name);
    const std::vector<Tensor> parameters = pass.parameters(node);
    const BackwardStep step = chain.step(parameters);
    BackwardNode result{node.name, node.row, pass.engine.backward_binding(node), step.seconds, {}, {}};
    if (asked.repeat) result.repeat_drift = repeat_drift(pass.engine, step);
    if (asked.batch_rows) result.batch_drift = batch_drift(pass.engine, step);
    report.seconds_candidate += step.seconds;
    report.nodes.push_back(std::move(result));

    const BackwardStep golden = truth ? truth->step(parameters) : BackwardStep();
    report.seconds_golden += golden.seconds;
    for (std::size_t i = 0; i < step.complete.size(); ++i)
      add(step.complete[i].first, &node, step.complete[i].second,
          truth ? golden.complete.at(i).second : Tensor());
  }
  return report;
}

BackwardReport replay_backward(const ReplayRequest& request, const ReplayProgress& progress) {
  if (progress) progress(0, "forward pass");
  const BlockRun run(request);
  const ForwardPass pass = {
      run.graph,
      *run.engine,
      run.golden.get(),
      forward(run, *run.engine, run.inputs.candidate),
      {},
      stand_in_output_gradient(run.layout, run.config, request.seed),
      [&](const Node& node) { return load(node.parameters, *run.weights); },
  };
  ForwardPass with_golden = pass;
  if (run.golden) with_golden.golden_values = forward(run, *run.golden, run.inputs.golden);

  std::optional<ProviderGradients> record;
  std::string provider = fmt::format("no record of layout {} for block {}", request.layout, request.block);
  if (request.block == 0)
    record = ProviderGradients::load(fixture_path("block0_backward.h5"), request.layout);
  if (record) {
    Values given = run.inputs.candidate;
    given["output_gradient"] = pass.output_gradient;
    const std::string mismatch = record->mismatch(run.weights->identity(), given);
    provider = mismatch.empty() ? record->environment() : "not comparable with the record: " + mismatch;
    if (!mismatch.empty()) record.reset();
  }

  Tensor stream_gradient;
  BackwardReport report = examine_backward(std::move(with_golden), request, judge_of(record), progress,
                                           [&](const std::string& value, const Tensor& gradient) {
                                             if (value == "hidden_states") stream_gradient = gradient;
                                           });
  report.provider = provider;
  for (int number = 2; number <= request.backward_passes; ++number) {
    if (progress) progress(kBackwardSteps, fmt::format("pass {} of {}", number, request.backward_passes));
    repeat(pass, report);
  }
  if (request.permute_rows) {
    if (progress) progress(kBackwardSteps, "permuted rows");
    examine_permutation(run, pass, stream_gradient, report);
  }
  return report;
}

}  // namespace h3
