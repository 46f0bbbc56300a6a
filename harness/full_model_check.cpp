#include "harness/full_model_check.h"

#include <algorithm>
#include <chrono>

#include "harness/replay.h"
#include "kernels/numerics/chain.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

using Clock = std::chrono::steady_clock;

// What `run` returns, and the seconds it took are added.
template <class Run>
auto timed(double& seconds, const Run& run) {
  const auto start = Clock::now();
  auto result = run();
  seconds += std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

TensorResult judged(Pass pass, const std::string& name, const std::string& stage, const Tensor& golden,
                    const Tensor& candidate, const TensorBound& bound) {
  const Tensor expected = golden.reshaped(candidate.shape());
  const Comparison error = compare(expected, candidate);
  Bound limit;
  limit.relative_l2 = bound.relative_l2;
  const Judgement judgement = judge(limit, error);
  TensorResult result{
      pass, name, stage, candidate.dtype(), candidate.shape(), xxh3_128_hex(candidate.byte_span())};
  result.relative_l2 = error.relative_l2;
  result.max_abs = error.max_abs;
  result.max_abs_index = error.max_abs_index;
  result.cosine = error.cosine;
  result.golden_norm = error.expected_l2;
  result.bound = bound;
  result.accepted = judgement.accepted;
  result.within_single =
      error.relative_l2 <= bound.single_relative_l2 && error.max_abs <= bound.single_max_abs;
  result.reason = judgement.reason;
  return result;
}

// The gate of block 0: its receipt, or block 0 here and now. What stood for it, and whether it closes.
std::pair<std::string, bool> gate_of_block0(const FullModelRequest& request) {
  if (!request.block0_receipt.empty()) {
    const auto receipt = read_json(request.block0_receipt);
    const std::string gate = receipt.value("gate", ""), verdict = receipt.value("verdict", "");
    require(gate == "block0" || gate == "block0_cuda", "{}: a receipt of gate '{}', expected block0",
            request.block0_receipt, gate);
    return {fmt::format("gate {} {}, receipt {}", gate, verdict, digest_file(request.block0_receipt).sha256),
            verdict == "closed"};
  }
  ReplayRequest block;
  block.engine = request.engine;
  const ReplayReport report = replay_block(block);
  const auto drift = report.first_drift();
  return {fmt::format("replayed, layout {}: {}", block.layout,
                      !report.provider_recorded ? report.provider
                      : drift                   ? "first drift " + drift->to_string()
                                                : fmt::format("{} nodes without drift", report.nodes.size())),
          report.provider_recorded && report.accepted()};
}

}  // namespace

const TensorResult* FullModelReport::first_drift(Pass pass) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const TensorResult& tensor) { return tensor.pass == pass && !tensor.accepted; });
  return found == tensors.end() ? nullptr : &*found;
}

const TensorResult& FullModelReport::tensor(Pass pass, const std::string& name) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const TensorResult& tensor) { return tensor.pass == pass && tensor.name == name; });
  require(found != tensors.end(), "full model: {} {} was not computed", name_of(pass), name);
  return *found;
}

std::vector<std::string> FullModelReport::missing() const {
  std::vector<std::string> names;
  for (const auto& bound : bounds.tensors)
    if (std::ranges::none_of(tensors, [&](const TensorResult& tensor) {
          return tensor.pass == bound.pass && tensor.name == bound.name;
        }))
      names.push_back(fmt::format("{} {}", name_of(bound.pass), bound.name));
  return names;
}

bool FullModelReport::accepted() const {
  return nodes > 0 && nodes_bound_to_row == nodes && !tensors.empty() && missing().empty() &&
         !first_drift(Pass::forward) && !first_drift(Pass::backward);
}

FullModelReport examine_full_model(const Execution& candidate, const Execution& golden,
                                   const Weights& weights, const PackedLayout& layout,
                                   const FullModelBounds& bounds, const FullModelProgress& progress,
                                   const OnCompared& on_compared) {
  FullModelReport report;
  report.config = bounds.config;
  report.layout = bounds.layout;
  report.engine = candidate.name();
  report.weights = weights.identity();
  report.rows = layout.rows();
  report.bounds = bounds;

  const auto stages = model_stages(weights.config());
  for (const Stage& stage : stages)
    for (const Node& node : stage.graph.nodes) {
      const Binding binding = candidate.binding(node);
      ++report.nodes;
      report.nodes_bound_to_row += binding == Binding::row;
      require(binding == Binding::row, "engine {}: node {} is bound to {}, expected row", candidate.name(),
              stage.value(node.name), name_of(binding));
    }

  const Values inputs = model_inputs(layout, weights.config(), bounds.seed),
               gradients = model_output_gradients(layout, weights.config(), bounds.seed);
  FullModel own(candidate, weights, inputs), truth(golden, weights, widened(inputs));
  const auto add = [&](Pass pass, const Stage& stage, const FullModel::Named& got,
                       const FullModel::Named& expected) {
    require(got.size() == expected.size(), "full model: {} gives {} tensors, the golden {}", stage.graph.name,
            got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor of_golden = golden.fetch(expected[i].second),
                   of_candidate = candidate.fetch(got[i].second);
      report.tensors.push_back(judged(pass, got[i].first, stage.graph.name, of_golden, of_candidate,
                                      bounds.of(pass, got[i].first)));
      if (on_compared) on_compared(report.tensors.back(), of_golden, of_candidate);
    }
  };
  const auto steps = std::int64_t(2 * stages.size());
  std::int64_t done = 0;
  const auto step = [&](Pass pass, const Stage& stage) {
    if (progress) progress(done++, steps, fmt::format("{} {}", name_of(pass), stage.graph.name));
  };
  while (const Stage* stage = own.next_forward()) {
    step(Pass::forward, *stage);
    const auto got = timed(report.seconds_candidate, [&] { return own.forward_stage(); });
    add(Pass::forward, *stage, got, timed(report.seconds_golden, [&] { return truth.forward_stage(); }));
  }
  own.start_backward(gradients);
  truth.start_backward(gradients);
  while (const Stage* stage = own.next_backward()) {
    step(Pass::backward, *stage);
    const auto got = timed(report.seconds_candidate, [&] { return own.backward_stage(); });
    add(Pass::backward, *stage, got, timed(report.seconds_golden, [&] { return truth.backward_stage(); }));
  }
  return report;
}

FullModelReport check_full_model(const FullModelRequest& request, const FullModelProgress& progress) {
  const Config config = config_named(request.config);
  const FullModelBounds bounds = load_bounds(request.config);
  require(request.layout.empty() || request.layout == bounds.layout,
          "layout '{}': the bounds of config {} are for layout {}", request.layout, request.config,
          bounds.layout);
  const auto weights = open_weights(request.checkpoint, bounds.seed, config);
  require(weights->config() == config, "{}: weights of another model than config {}", request.checkpoint,
          request.config);
  require(weights->identity() == bounds.weights, "weights {}: the bounds of config {} are for {}",
          weights->identity(), request.config, bounds.weights);
  const auto engine = engine_named(request.engine, config);
  const auto [block0, closed] = gate_of_block0(request);
  if (!closed) {
    FullModelReport refused;
    refused.config = request.config;
    refused.layout = bounds.layout;
    refused.engine = request.engine;
    refused.weights = weights->identity();
    refused.bounds = bounds;
    refused.block0 = block0;
    return refused;
  }
  FullModelReport report = examine_full_model(*engine, *golden_execution(false, config), *weights,
                                              named_layout(bounds.layout), bounds, progress);
  report.block0 = block0;
  report.chain_isa = request.engine == "cuda" ? cuda_device_name() : name_of(numerics::chosen_chain_isa());
  return report;
}

}  // namespace h3
