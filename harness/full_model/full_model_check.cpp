#include "harness/full_model/full_model_check.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <regex>

#include "harness/compare/compare_placed.h"
#include "harness/replay/replay.h"
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

TensorError error_of(const Comparison& comparison) {
  return {comparison.relative_l2, comparison.max_abs, comparison.cosine, comparison.max_abs_index};
}

// Of a limit that accepts a tensor of zeros only what does not depend on it counts: written, and finite where
// the golden is.
Judgement judged_within(double limit, const Comparison& comparison) {
  Bound bound;
  bound.relative_l2 = limit < 1 ? limit : std::numeric_limits<double>::max();
  return judge(bound, comparison);
}

// What the nodes of a stage gave, in the order in which they ran: beside the twin's it names the first that
// differs.
class NodeDigests {
 public:
  void watch(FullModel& model) {
    model.observe([this](const Stage&, const Node& node, const Tensor& output) { add(node.name, output); },
                  [this](const Stage&, const BackwardStep& step) {
                    for (const auto* list : {&step.gradients.parameters, &step.gradients.inputs})
                      for (const Tensor& gradient : *list)
                        if (!gradient.empty()) add("the backward of " + step.node->name, gradient);
                  });
  }
  void clear() { digests_.clear(); }
  std::string first_difference(const NodeDigests& twin) const {  // empty: none
    const auto differs = std::ranges::mismatch(digests_, twin.digests_).in1;
    return differs == digests_.end() ? "" : differs->first;
  }

 private:
  void add(const std::string& what, const Tensor& tensor) {
    digests_.emplace_back(what, xxh3_128_placed(tensor));
  }
  std::vector<std::pair<std::string, std::string>> digests_;
};

// `twin` is empty where it was not asked; `differs_at` names the node, where it is known.
TensorResult judged(Pass pass, const std::string& name, const std::string& stage, const Tensor& chained,
                    const Tensor& isolated, const Tensor& twin, const std::string& differs_at,
                    const Tensor& candidate, const TensorBound& bound) {
  const auto measured = [&](const Tensor& golden) {
    return compare_placed(golden.reshaped(candidate.shape()), candidate);
  };
  const Comparison of_chained = measured(chained), of_isolated = measured(isolated);
  TensorResult result{pass, name, stage, candidate.dtype(), candidate.shape(), xxh3_128_placed(candidate)};
  result.chained = error_of(of_chained);
  result.isolated = error_of(of_isolated);
  result.golden_norm = of_chained.expected_l2;
  result.bound = bound;
  const Judgement own = judged_within(bound.isolated, of_isolated),
                  whole = judged_within(bound.chained, of_chained);
  if (!twin.empty())
    result.twin = xxh3_128_placed(twin) == result.xxh3_128 ? TwinBytes::same : TwinBytes::differ;
  const bool left_to_twin = bound.isolated_is_blind() && result.twin == TwinBytes::not_asked;
  result.accepted = own.accepted && whole.accepted && result.twin != TwinBytes::differ && !left_to_twin;
  result.reason =
      result.twin == TwinBytes::differ
          ? "other bytes than the CPU twin" + (differs_at.empty() ? "" : ", first of " + differs_at)
      : left_to_twin                    ? "the bound is blind and no twin was asked"
      : own.accepted && !whole.accepted ? "chained: " + whole.reason
                                        : "isolated: " + own.reason;
  result.within_single = result.chained.relative_l2 <= bound.single_relative_l2 &&
                         result.chained.max_abs <= bound.single_max_abs;
  return result;
}

bool has_candidates(Pass pass, const Stage& stage, const Execution& engine) {
  return std::ranges::any_of(stage.graph.nodes, [&](const Node& node) {
    return engine.binding(node) == Binding::candidate ||
           (pass == Pass::backward && engine.backward_binding(node) == Binding::candidate);
  });
}

std::string in_all_blocks(const std::string& value) {
  static const std::regex block("\\.[0-9]+\\.");
  return std::regex_replace(value, block, ".*.");
}

void count_candidate(std::vector<CandidateNodes>& counted, const std::string& name, bool forward,
                     bool backward) {
  if (!forward && !backward) return;
  auto known = std::ranges::find(counted, name, &CandidateNodes::name);
  if (known == counted.end()) known = counted.insert(known, {name});
  known->forward += forward;
  known->backward += backward;
}

// Blocks whose forward the twin computes, too: the first, the one in the middle and the last.
bool is_for_twin(Pass pass, const Stage& stage, const Config& config) {
  if (pass == Pass::backward) return false;
  for (const std::int64_t block : {std::int64_t(0), config.num_layers / 2, config.num_layers - 1})
    if (stage.prefix == fmt::format("transformer_blocks.{}.", block)) return true;
  return false;
}

// The gate of block 0: its receipt, or block 0 here and now. What stood for it, and whether it closes.
std::pair<std::string, bool> gate_of_block0(const FullModelRequest& request) {
  if (!request.block0_receipt.empty()) {
    const auto receipt = read_json(request.block0_receipt);
    const auto text = [&](const char* key) {
      return values_of(request.block0_receipt, [&] { return receipt.value(key, ""); });
    };
    const std::string gate = text("gate"), verdict = text("verdict");
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

std::int64_t FullModelReport::recorded_digests() const {
  return std::ranges::count_if(tensors,
                               [](const auto& tensor) { return !tensor.bound.provider_xxh3_128.empty(); });
}

std::int64_t FullModelReport::same_digests() const {
  return std::ranges::count_if(tensors, [](const auto& tensor) { return tensor.has_the_providers_bytes(); });
}

std::int64_t FullModelReport::with(TwinBytes twin) const {
  return std::ranges::count(tensors, twin, &TensorResult::twin);
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
  return forward_bindings.complete() && backward_bindings.complete() && !tensors.empty() &&
         missing().empty() && !first_drift(Pass::forward) && !first_drift(Pass::backward);
}

FullModelReport examine_full_model(const Execution& candidate, const References& references,
                                   const Weights& weights, const PackedLayout& layout,
                                   const FullModelBounds& bounds, const FullModelProgress& progress,
                                   const OnCompared& on_compared, const std::vector<std::string>& swapped) {
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
      const bool is_swapped = std::ranges::count(swapped, node.name) > 0;
      for (const Binding binding : {candidate.binding(node), candidate.backward_binding(node)})
        require(binding == Binding::row || binding == Binding::candidate || is_swapped,
                "engine {}: node {} is bound to {}, expected row or candidate", candidate.name(),
                stage.value(node.name), name_of(binding));
      report.forward_bindings.count(candidate.binding(node));
      report.backward_bindings.count(candidate.backward_binding(node));
      count_candidate(report.candidates, in_all_blocks(stage.value(node.name)),
                      candidate.binding(node) == Binding::candidate,
                      candidate.backward_binding(node) == Binding::candidate);
    }

  const Values inputs = model_inputs(layout, weights.config(), bounds.seed),
               gradients = model_output_gradients(layout, weights.config(), bounds.seed);
  const auto steps = std::int64_t(2 * stages.size());
  std::int64_t done = 0;
  FullModel own(candidate, weights, inputs), chained(references.chained, weights, widened(inputs)),
      isolated(references.isolated, weights, {}), twin(references.twin, weights, {});
  const auto for_golden = [&](const Tensor& placed) {
    const Tensor tensor = candidate.fetch(placed);
    return references.isolated.place(tensor.dtype() == DType::bf16 ? tensor.to(DType::fp32) : tensor);
  };
  NodeDigests own_nodes, twin_nodes;
  if (report.forward_bindings.candidate + report.backward_bindings.candidate > 0) {
    own_nodes.watch(own);
    twin_nodes.watch(twin);
  }
  // The next stage of all of them, and what came of it.
  const auto run = [&](Pass pass, const Stage& stage, FullModel::Named (FullModel::*next)()) {
    if (progress) progress(done++, steps, fmt::format("{} {}", name_of(pass), stage.graph.name));
    const auto [of_chained, of_isolated] = timed(report.seconds_golden, [&] {
      isolated.go_on_from(own, for_golden);
      return std::pair((chained.*next)(), (isolated.*next)());
    });
    own_nodes.clear();
    twin_nodes.clear();
    twin.go_on_from(own,
                    [&](const Tensor& placed) { return references.twin.place(candidate.fetch(placed)); });
    const auto got = timed(report.seconds_candidate, [&] { return (own.*next)(); });
    const bool ask_twin = swapped.empty() && (is_for_twin(pass, stage, weights.config()) ||
                                              has_candidates(pass, stage, candidate) ||
                                              std::ranges::any_of(got, [&](const auto& t) {
                                                return bounds.of(pass, t.first).isolated_is_blind();
                                              }));
    const auto of_twin =
        ask_twin ? timed(report.seconds_twin, [&] { return (twin.*next)(); }) : FullModel::Named(got.size());
    for (const auto* expected : {&of_chained, &of_isolated, &of_twin})
      require(got.size() == expected->size(), "full model: {} gives {} tensors, a reference {}",
              stage.graph.name, got.size(), expected->size());
    const std::string differs_at = ask_twin ? own_nodes.first_difference(twin_nodes) : "";
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto& [name, tensor] = got[i];
      report.tensors.push_back(judged(pass, name, stage.graph.name, of_chained[i].second,
                                      of_isolated[i].second, of_twin[i].second, differs_at, tensor,
                                      bounds.of(pass, name)));
      if (on_compared) on_compared(report.tensors.back(), of_chained[i].second, tensor);
    }
  };
  while (const Stage* stage = own.next_forward()) run(Pass::forward, *stage, &FullModel::forward_stage);
  own.start_backward(gradients);
  chained.start_backward(gradients);
  while (const Stage* stage = own.next_backward()) run(Pass::backward, *stage, &FullModel::backward_stage);
  return report;
}

FullModelReport check_full_model(const FullModelRequest& request, const FullModelProgress& progress) {
  const Config config = config_named(request.config);
  const FullModelBounds bounds = load_bounds(request.config, request.layout);
  const auto weights = open_weights(request.checkpoint, bounds.seed, config);
  require(weights->config() == config, "{}: weights of another model than config {}", request.checkpoint,
          request.config);
  require(weights->identity() == bounds.weights, "weights {}: the bounds of config {} are for {}",
          weights->identity(), request.config, bounds.weights);
  auto engine = engine_named(request.engine, config);
  const SwappedNodes* swapped = nullptr;
  if (!request.swap.nodes.empty()) {
    auto with_swap = swap_nodes(std::move(engine), request.swap, config);
    swapped = with_swap.get();
    engine = std::move(with_swap);
  }
  const auto [block0, closed] = gate_of_block0(request);
  if (!closed) {
    FullModelReport refused;
    refused.config = request.config;
    refused.layout = bounds.layout;
    refused.engine = engine->name();
    refused.weights = weights->identity();
    refused.bounds = bounds;
    refused.block0 = block0;
    return refused;
  }
  const auto golden =
      engine->device() == Device::cuda ? golden_execution_on_gpu(config) : golden_execution(false, config);
  const auto twin = cpu_execution(config);
  FullModelReport report =
      examine_full_model(*engine, {*golden, *golden, *twin}, *weights, named_layout(bounds.layout), bounds,
                         progress, {}, request.swap.nodes);
  if (swapped) report.swapped = swapped->swapped();
  report.block0 = block0;
  report.chain_isa =
      engine->device() == Device::cuda ? cuda_device_name() : name_of(numerics::chosen_chain_isa());
  return report;
}

}  // namespace h3
