#include "harness/replay.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>

#include "fixtures/path.h"
#include "harness/compare.h"
#include "harness/row_subset.h"
#include "kernels/numerics/chain.h"
#include "model/digest.h"

namespace h3 {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<Tensor> pick(const std::vector<std::string>& names, const Values& values) {
  std::vector<Tensor> picked;
  for (const auto& name : names) picked.push_back(values.at(name));
  return picked;
}

std::vector<Tensor> load(const std::vector<std::string>& names, const Weights& weights) {
  std::vector<Tensor> loaded;
  for (const auto& name : names) loaded.push_back(weights.tensor(name));
  return loaded;
}

// Drops every value that no later node reads: the widest tensor of a block is 28,672 columns.
void release(Values& values, const Graph& graph, std::size_t done) {
  std::erase_if(values, [&](const auto& value) {
    if (value.first == graph.nodes.back().name) return false;
    for (std::size_t later = done + 1; later < graph.nodes.size(); ++later)
      if (std::ranges::count(graph.nodes[later].inputs, value.first)) return false;
    return true;
  });
}

// The first element in which two results for the same rows differ; `rows` names them in the whole sequence.
std::optional<Drift> first_difference(const Node& node, const Tensor& expected, const Tensor& got,
                                      std::span<const std::int64_t> rows, std::int64_t head_dim,
                                      const char* what) {
  if (expected.size_bytes() == got.size_bytes() &&
      !std::memcmp(expected.bytes(), got.bytes(), got.size_bytes()))
    return {};
  const Comparison found = compare(expected, got);
  const std::int64_t cols = expected.elements() / std::int64_t(rows.size());
  const std::int64_t row = found.first_differing / cols, element = found.first_differing % cols;
  const bool heads = node.cols % head_dim == 0 && node.row != "h3_rmsnorm" && expected.shape().size() == 3;
  return Drift{node.name, rows[std::size_t(row)], heads ? element / head_dim : -1, element,
               fmt::format("{}: expected {}, got {}, {} of {} elements differ", what,
                           expected.at(found.first_differing), got.at(found.first_differing), found.differing,
                           found.elements)};
}

// Three rows alone, then the same rows inside another sequence at other places: their bytes must not change.
std::optional<Drift> batch_drift(const Execution& engine, const Node& node, std::span<const Tensor> inputs,
                                 std::span<const Tensor> parameters, const Tensor& output,
                                 std::int64_t head_dim) {
  const std::int64_t in_rows = inputs[0].shape()[0], out_rows = output.shape()[0],
                     per_input = out_rows / in_rows;
  std::vector<std::int64_t> targets = {0, in_rows / 2, in_rows - 1};
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  const auto outputs_of = [&](std::span<const std::int64_t> rows) {
    std::vector<std::int64_t> all;
    for (const auto row : rows)
      for (std::int64_t i = 0; i < per_input; ++i) all.push_back(row * per_input + i);
    return all;
  };
  for (const auto row : targets) {
    const std::vector<std::int64_t> alone = {row}, rows = outputs_of(alone);
    const Tensor got = engine.run(node, inputs_of_rows(node, inputs, alone), parameters);
    if (auto drift = first_difference(node, gather_rows(output, rows), got, rows, head_dim, "row alone"))
      return drift;
  }
  std::vector<std::int64_t> mixed;  // 17 rows: not a multiple of any tile, every target off its old place
  for (std::int64_t i = 0; i < 17; ++i) mixed.push_back((i * 37 + 5) % in_rows);
  for (std::size_t i = 0; i < targets.size(); ++i) mixed[3 + 5 * i] = targets[targets.size() - 1 - i];
  const std::vector<std::int64_t> rows = outputs_of(mixed);
  const Tensor got = engine.run(node, inputs_of_rows(node, inputs, mixed), parameters);
  return first_difference(node, gather_rows(output, rows), got, rows, head_dim,
                          "row inside another sequence");
}

// Without a record there is no bound, but NaN, Inf and unwritten elements still fail.
GoldenError golden_error(const Tensor& golden, const Tensor& candidate, const ProviderNode* recorded) {
  const Comparison error = compare(golden, candidate);
  GoldenError result{error.relative_l2, error.max_abs, error.max_abs_index, {}, false};
  if (recorded) result.bound = 1.25 * recorded->relative_l2 + 1e-3;
  Bound bound;
  bound.relative_l2 = result.bound.value_or(std::numeric_limits<double>::max());
  result.accepted = judge(bound, error).accepted;
  return result;
}

// How many output rows change when the packed rows arrive in another order. They are put into canonical order
// at entry and back at exit, so the answer has to be none.
std::int64_t rows_changed_by_permutation(const Execution& engine, const Graph& graph,
                                         const PackedLayout& layout, const Values& inputs,
                                         const Weights& weights, const Tensor& expected) {
  const std::int64_t rows = layout.rows();
  std::vector<std::int64_t> arrival(std::size_t(rows), 0);
  for (std::int64_t i = 0, stride = 0; i < rows; ++i) {
    stride = 101;
    while (std::gcd(stride, rows) != 1) ++stride;
    arrival[std::size_t(i)] = (i * stride + 7) % rows;
  }
  const PackedLayout permuted = layout.permuted(arrival);
  const std::vector<std::int64_t> canonical = permuted.canonical_order();
  Values values = inputs;
  for (const char* per_row : {"hidden_states", "adaln_indices", "rotary_cos", "rotary_sin"}) {
    Tensor& value = values.at(per_row);
    value = gather_rows(gather_rows(value, arrival), canonical);
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    values[node.name] = engine.run(node, pick(node.inputs, values), load(node.parameters, weights));
    release(values, graph, n);
  }
  // Canonical row i arrived at canonical[i], which is packed row arrival[canonical[i]].
  const Tensor& output = values.at(graph.nodes.back().name);
  const std::size_t stride = output.size_bytes() / std::size_t(rows);
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto packed = std::size_t(arrival[std::size_t(canonical[std::size_t(i)])]);
    changed += std::memcmp(output.bytes() + std::size_t(i) * stride, expected.bytes() + packed * stride,
                           stride) != 0;
  }
  return changed;
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

std::int64_t ReplayReport::nodes_bound_to_row() const {
  return std::ranges::count_if(nodes, [](const NodeResult& node) { return node.binding == Binding::row; });
}

bool ReplayReport::accepted() const {
  return !nodes.empty() && nodes_bound_to_row() == std::int64_t(nodes.size()) && !first_drift() &&
         !first_repeat_drift() && !first_batch_drift() && permuted_rows_changed.value_or(0) == 0 &&
         std::ranges::all_of(nodes, [](const NodeResult& n) { return !n.golden || n.golden->accepted; }) &&
         std::ranges::all_of(boundaries,
                             [](const BoundaryResult& b) { return b.equals_provider.value_or(true); });
}

ReplayReport replay_block(const ReplayRequest& request, const ReplayProgress& progress,
                          const ReplayObserver& observe) {
  const Config config;
  require(request.block >= 0 && request.block < config.num_layers, "block {}: expected 0..{}", request.block,
          config.num_layers - 1);
  const auto engine = engine_named(request.engine);
  const PackedLayout layout = named_layout(request.layout);
  const auto weights = open_weights(request.checkpoint, request.seed, config);
  const Graph graph = transformer_block(config, request.block);
  const std::int64_t head_dim = config.attention_head_dim;

  ReplayReport report;
  report.request = request;
  report.graph = graph.name;
  report.layout_sha256 = layout.sha256();
  report.weights = weights->identity();
  report.chain_isa = request.engine == "cuda" ? cuda_device_name() : name_of(numerics::chosen_chain_isa());
  report.rows = layout.rows();
  report.timesteps = layout.timesteps;

  if (progress) progress(0, "inputs");
  const auto golden = request.golden ? golden_execution(false) : nullptr;
  const BlockInputs inputs =
      block_inputs(layout, *weights, request.seed, request.block, *engine, golden.get());

  std::optional<ProviderRecord> record;
  if (request.block == 0) record = ProviderRecord::load(fixture_path("block0.h5"), request.layout);
  if (!record) {
    report.provider = fmt::format("no record of layout {} for block {}", request.layout, request.block);
  } else if (const auto mismatch = record->mismatch(weights->identity(), inputs.candidate);
             !mismatch.empty()) {
    report.provider = "not comparable with the record: " + mismatch;
    record.reset();
  } else {
    report.provider = record->environment();
    report.provider_recorded = true;
  }
  for (const auto& [name, tensor] : inputs.boundaries) {
    BoundaryResult boundary{name, xxh3_128_hex(tensor.byte_span()), tensor.shape(), {}};
    if (record) boundary.equals_provider = record->boundary_equal(name, tensor);
    report.boundaries.push_back(boundary);
  }

  Values values = inputs.candidate, truth = inputs.golden;
  std::map<std::string, bool> has_provider_bytes;
  for (const auto& name : graph.inputs) has_provider_bytes[name] = record.has_value();

  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (progress) progress(std::int64_t(n) + 1, node.name);
    const std::vector<Tensor> parameters = load(node.parameters, *weights);
    const std::vector<Tensor> in = pick(node.inputs, values);

    NodeResult result;
    result.node = node.name;
    result.row = node.row;
    result.binding = engine->binding(node);
    auto start = Clock::now();
    const Tensor output = engine->run(node, in, parameters);
    result.seconds = seconds_since(start);
    report.seconds_candidate += result.seconds;
    result.dtype = output.dtype();
    result.shape = output.shape();
    result.xxh3_128 = xxh3_128_hex(output.byte_span());
    result.sha256 = sha256_hex(output.byte_span());

    if (request.repeat) {
      std::vector<std::int64_t> rows(std::size_t(output.shape()[0]));
      std::iota(rows.begin(), rows.end(), 0);
      result.repeat_drift =
          first_difference(node, output, engine->run(node, in, parameters), rows, head_dim, "second run");
    }
    if (request.batch_rows) result.batch_drift = batch_drift(*engine, node, in, parameters, output, head_dim);
    if (record) {
      result.provider = record->judge(node, output, result.sha256, head_dim);
      result.isolated =
          std::ranges::all_of(node.inputs, [&](const auto& name) { return has_provider_bytes[name]; });
      has_provider_bytes[node.name] = result.provider->equal;
    }
    if (golden) {
      start = Clock::now();
      truth[node.name] = golden->run(node, pick(node.inputs, truth), parameters);
      report.seconds_golden += seconds_since(start);
      result.golden = golden_error(truth[node.name].reshaped(output.shape()), output,
                                   record ? &record->node(node.name) : nullptr);
    }
    values[node.name] = output;
    if (observe) observe(node, values, truth);
    release(values, graph, n);
    release(truth, graph, n);
    report.nodes.push_back(std::move(result));
  }
  if (request.permute_rows) {
    if (progress) progress(kReplaySteps, "permuted rows");
    report.permuted_rows_changed = rows_changed_by_permutation(*engine, graph, layout, inputs.candidate,
                                                               *weights, values.at(graph.nodes.back().name));
  }
  return report;
}

}  // namespace h3
