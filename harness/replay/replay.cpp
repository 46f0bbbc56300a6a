#include "harness/replay/replay.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "fixtures/path.h"
#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/graph_values.h"
#include "harness/execution/row_subset.h"
#include "harness/replay/block_run.h"
#include "harness/replay/row_permutation.h"
#include "kernels/numerics/chain.h"
#include "model/digest.h"

namespace h3 {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The same rows alone and inside another sequence.
std::optional<Drift> batch_drift(const Execution& engine, const Node& node, std::span<const Tensor> inputs,
                                 std::span<const Tensor> parameters, const Tensor& output) {
  const std::int64_t in_rows = inputs[0].shape()[0], per_input = output.shape()[0] / in_rows;
  for (const auto& batch : row_batches(in_rows)) {
    const std::vector<std::int64_t> rows = output_rows(batch.rows, per_input);
    const Tensor got = engine.run(node, inputs_of_rows(node, inputs, batch.rows), parameters);
    if (auto drift = first_difference(node.name, gather_rows(output, rows), got, batch.what, rows))
      return drift;
  }
  return {};
}

// Without a record there is no bound, but NaN, Inf and unwritten elements still fail.
GoldenError golden_error(const Tensor& golden, const Tensor& candidate, const ProviderNode* recorded) {
  const Comparison error = compare(golden, candidate);
  GoldenError result{error.relative_l2, error.max_abs, error.max_abs_index, {}, false, {}};
  if (recorded) result.bound = recorded->bound();
  Bound bound;
  bound.relative_l2 = result.bound.value_or(std::numeric_limits<double>::max());
  const Judgement judgement = judge(bound, error);
  result.accepted = judgement.accepted;
  result.reason = judgement.reason;
  return result;
}

// How many output rows change when the packed rows arrive in another order.
std::int64_t rows_changed_by_permutation(const BlockRun& run, const Tensor& expected) {
  const RowPermutation permutation(run.layout);
  Values values = permutation.at_entry(run.inputs.candidate);
  for (std::size_t n = 0; n < run.graph.nodes.size(); ++n) {
    const Node& node = run.graph.nodes[n];
    values[node.name] = run.engine->run(node, pick(node.inputs, values), load(node.parameters, *run.weights));
    release(values, run.graph, n);
  }
  return permutation.rows_changed(expected, values.at(run.graph.nodes.back().name));
}

}  // namespace

std::optional<Drift> ReplayReport::first_drift() const {
  for (const auto& node : nodes)
    if (node.provider && !node.provider->equal) return node.provider->first;
  return {};
}

std::optional<Drift> ReplayReport::first_isolated_drift() const {
  for (const auto& node : nodes)
    if (node.isolated && node.provider && !node.provider->equal) return node.provider->first;
  return {};
}

std::optional<Drift> ReplayReport::first_repeat_drift() const {
  for (const auto& node : nodes)
    if (node.repeat_drift) return node.repeat_drift;
  return {};
}

std::optional<Drift> ReplayReport::first_batch_drift() const {
  for (const auto& node : nodes)
    if (node.batch_drift) return node.batch_drift;
  return {};
}

Bindings ReplayReport::bindings() const {
  Bindings bindings;
  for (const auto& node : nodes) bindings.count(node.binding);
  return bindings;
}

bool ReplayReport::accepted() const {
  return bindings().complete() && !first_drift() && !first_repeat_drift() && !first_batch_drift() &&
         permuted_rows_changed.value_or(0) == 0 &&
         std::ranges::all_of(nodes, [](const NodeResult& n) { return !n.golden || n.golden->accepted; }) &&
         std::ranges::all_of(boundaries,
                             [](const BoundaryResult& b) { return b.equals_provider.value_or(true); });
}

ReplayReport replay_block(const ReplayRequest& request, const ReplayProgress& progress,
                          const ReplayObserver& observe) {
  if (progress) progress(0, "inputs");
  const BlockRun run(request);
  const Graph& graph = run.graph;
  const Execution& engine = *run.engine;

  ReplayReport report;
  report.request = request;
  report.request.engine = engine.name();  // of a candidate its own name, not where its library lies
  report.graph = graph.name;
  report.layout_sha256 = run.layout.sha256();
  report.weights = run.weights->identity();
  report.chain_isa =
      engine.device() == Device::cuda ? cuda_device_name() : name_of(numerics::chosen_chain_isa());
  report.rows = run.layout.rows();
  report.timesteps = run.layout.timesteps;

  std::optional<ProviderRecord> record;
  if (request.block == 0) record = ProviderRecord::load(fixture_path("block0.h5"), request.layout);
  if (!record) {
    report.provider = fmt::format("no record of layout {} for block {}", request.layout, request.block);
  } else if (const auto mismatch = record->mismatch(report.weights, run.inputs.candidate);
             !mismatch.empty()) {
    report.provider = "not comparable with the record: " + mismatch;
    record.reset();
  } else {
    report.provider = record->environment();
    report.provider_recorded = true;
  }
  for (const auto& [name, tensor] : run.inputs.boundaries) {
    BoundaryResult boundary{name, xxh3_128_hex(tensor.byte_span()), tensor.shape(), {}};
    if (record) boundary.equals_provider = record->boundary_equal(name, tensor);
    report.boundaries.push_back(boundary);
  }

  Values values = run.inputs.candidate, truth = run.inputs.golden;
  std::map<std::string, bool> has_provider_bytes;
  for (const auto& name : graph.inputs) has_provider_bytes[name] = record.has_value();

  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (progress) progress(std::int64_t(n) + 1, node.name);
    const std::vector<Tensor> parameters = load(node.parameters, *run.weights);
    const std::vector<Tensor> in = pick(node.inputs, values);

    NodeResult result;
    result.node = node.name;
    result.row = node.row;
    result.binding = engine.binding(node);
    auto start = Clock::now();
    const Tensor output = engine.run(node, in, parameters);
    result.seconds = seconds_since(start);
    report.seconds_candidate += result.seconds;
    result.dtype = output.dtype();
    result.shape = output.shape();
    result.xxh3_128 = xxh3_128_hex(output.byte_span());
    result.sha256 = sha256_hex(output.byte_span());

    if (request.repeat)
      result.repeat_drift =
          first_difference(node.name, output, engine.run(node, in, parameters), "second run");
    if (request.batch_rows) result.batch_drift = batch_drift(engine, node, in, parameters, output);
    if (record) {
      result.provider = record->judge(node, output, result.sha256, run.config.attention_head_dim);
      result.isolated =
          std::ranges::all_of(node.inputs, [&](const auto& name) { return has_provider_bytes[name]; });
      has_provider_bytes[node.name] = result.provider->equal;
    }
    if (run.golden) {
      start = Clock::now();
      truth[node.name] = run.golden->run(node, pick(node.inputs, truth), parameters);
      report.seconds_golden += seconds_since(start);
      result.golden = golden_error(truth[node.name].reshaped(output.shape()), output,
                                   record ? &record->node(node.name) : nullptr);
      if (record) result.ulp = sampled_ulp(truth[node.name], output, record->node(node.name));
    }
    values[node.name] = output;
    if (observe) observe(node, values, truth);
    release(values, graph, n);
    release(truth, graph, n);
    report.nodes.push_back(std::move(result));
  }
  if (request.permute_rows) {
    if (progress) progress(kReplaySteps, "permuted rows");
    report.permuted_rows_changed = rows_changed_by_permutation(run, values.at(graph.nodes.back().name));
  }
  return report;
}

}  // namespace h3
