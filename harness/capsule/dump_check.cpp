#include "harness/capsule/dump_check.h"

#include <algorithm>
#include <limits>

#include "harness/capsule/capsule.h"
#include "harness/compare/calibrated_bound.h"
#include "harness/compare/fault_class.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/graph_values.h"
#include "model/layout.h"
#include "model/named_configs.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

Graph graph_of(const DumpRequest& request, const Config& config) {
  const std::int64_t blocks = request.refiner ? config.num_refiner_layers : config.num_layers;
  require(request.block >= 0 && request.block < blocks, "block {}: expected 0..{}", request.block,
          blocks - 1);
  return request.refiner ? refiner_block(config, request.block) : transformer_block(config, request.block);
}

// ---- what the suite itself would run the block on

Values own_inputs(const DumpRequest& request, const Graph& graph, const PackedLayout& layout,
                  const Weights& weights, const Execution& engine) {
  if (!request.refiner)
    return block_inputs(layout, weights, request.seed, request.block, engine, nullptr).candidate;
  return {{"hidden_states",
           synthetic_activation(request.seed, graph.name + ".hidden_states",
                                {layout.text_rows(), weights.config().hidden_size}, DType::bf16, 1, true)}};
}

std::optional<PackedLayout> layout_of(const DumpRequest& request, const Dump& dump) {
  const std::string says = dump.metadata("layout"), name = request.layout.empty() ? says : request.layout;
  require(request.layout.empty() || says.empty() || says == request.layout,
          "{}: captured on layout {}, checked on {}", dump.path(), says, request.layout);
  if (name.empty()) return {};
  PackedLayout layout = named_layout(name);
  const std::string sha256 = dump.metadata("layout_sha256");
  require(sha256.empty() || sha256 == layout.sha256(), "{}: captured on a layout {}, layout {} is {}",
          dump.path(), sha256, name, layout.sha256());
  return layout;
}

// ---- one dump, walked

class Walk {
 public:
  Walk(const DumpRequest& request, const ReplayProgress& progress)
      : request_(request),
        progress_(progress),
        config_(config_named(request.config)),
        graph_(graph_of(request, config_)),
        dump_(request.dump, graph_, request.names),
        layout_(layout_of(request, dump_)),
        weights_(open_weights(request.checkpoint, request.seed, config_)),
        twin_(cpu_execution(config_)),
        golden_(request.golden ? golden_execution(false, config_) : nullptr) {
    const std::string says = dump_.metadata("weights");
    require(says.empty() || says == weights_->identity(), "{}: captured with weights {}, checked with {}",
            dump_.path(), says, weights_->identity());
    report_.request = request;
    report_.graph = graph_.name;
    report_.weights = weights_->identity();
    report_.runtime = dump_.metadata("runtime");
    if (layout_ && report_.request.layout.empty()) report_.request.layout = dump_.metadata("layout");
  }

  DumpReport report() {
    inputs();
    for (const Node& node : graph_.nodes) forward(node);
    if (dump_.has_gradients()) backward();
    if (!request_.capsules.empty() && !report_.capsule) report_.capsule = "none: no isolated drift";
    return std::move(report_);
  }

 private:
  void step(const std::string& what) {
    if (progress_) progress_(steps_++, what);
  }

  // ---- graph inputs: the dump's, or the suite's own

  void inputs() {
    step("inputs");
    Values own;
    if (layout_) own = own_inputs(request_, graph_, *layout_, *weights_, *twin_);
    const auto rows_of = [&] {
      if (!layout_) {
        require(dump_.has("hidden_states"), "{}: no hidden_states and no layout to make it from",
                dump_.path());
        return dump_.rows("hidden_states");
      }
      return request_.refiner ? layout_->text_rows() : layout_->rows();
    };
    report_.rows = rows_of();
    std::int64_t times = layout_ ? std::int64_t(layout_->timesteps.size()) : 0;
    for (const auto& name : graph_.inputs) {
      if (!dump_.has(name)) {
        require(layout_.has_value(), "{}: no {} and no layout to make it from", dump_.path(), name);
        report_.given.push_back(name);
        local_[name] = own.at(name);
        continue;
      }
      if (name == "temb" && !layout_) times = dump_.rows(name);
      local_[name] =
          name == "hidden_states"   ? dump_.tensor(name, DType::bf16, {report_.rows, config_.hidden_size})
          : name == "temb"          ? dump_.tensor(name, DType::fp32, {times, config_.time_embed_dim})
          : name == "adaln_indices" ? dump_.tensor(name, DType::i64, {report_.rows})
                                    : dump_.tensor(name, DType::fp32, {report_.rows, config_.rotary_dim()});
      if (layout_ && name == "adaln_indices") look_at_layout(own.at(name));
    }
    chain_ = local_;
    for (const auto& [name, tensor] : local_) truth_[name] = widened(tensor);
  }

  void look_at_layout(const Tensor& expected) {
    const Tensor& got = local_.at("adaln_indices");
    const auto ours = expected.values<std::int64_t>(), theirs = got.values<std::int64_t>();
    const auto [own, other] = std::ranges::mismatch(ours, theirs);
    if (own != ours.end())
      report_.layout_difference = fmt::format("adaln_indices row {}: layout {} has {}, got {}",
                                              own - ours.begin(), report_.request.layout, *own, *other);
  }

  // ---- forward

  void forward(const Node& node) {
    step(node.name);
    const std::vector<Tensor> parameters = load(node.parameters, *weights_),
                              local_in = pick(node.inputs, local_), chain_in = pick(node.inputs, chain_);
    const Tensor isolated = twin_->run(node, local_in, parameters),
                 chained = all_same(local_in, chain_in) ? isolated : twin_->run(node, chain_in, parameters);
    Tensor true_isolated, true_chained;
    if (golden_) {
      true_isolated = golden_->run(node, widened(local_in), parameters).reshaped(isolated.shape());
      true_chained = golden_->run(node, pick(node.inputs, truth_), parameters).reshaped(isolated.shape());
      truth_[node.name] = true_chained;
    }
    DumpValue value{node.name, node.name, node.row, through(node.inputs, ""), {}, {}};
    Tensor own = isolated;
    if (dump_.has(node.name)) {
      own = dump_.tensor(node.name, isolated.dtype(), isolated.shape());
      value.isolated = judgement(node.name, isolated, own, true_isolated, false);
      value.chained = judgement(node.name, chained, own, true_chained, false);
      if (!value.isolated->equal) encapsulate({{config_, node, local_in, parameters}}, isolated, own);
    }
    report_.forward.push_back(std::move(value));
    local_[node.name] = own;
    chain_[node.name] = chained;
    strict_[node.name] = isolated;
  }

  static bool all_same(std::span<const Tensor> a, std::span<const Tensor> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), identical);
  }

  // Values on the way that the dump lacks and that a row has made from others.
  std::vector<std::string> through(std::span<const std::string> values, const std::string& prefix) const {
    std::vector<std::string> lacking;
    for (const auto& value : values)
      if (!dump_.has(prefix + value) && std::ranges::count(graph_.inputs, value) == 0)
        lacking.push_back(prefix + value);
    return lacking;
  }

  DumpJudgement judgement(const std::string& name, const Tensor& expected, const Tensor& found,
                          const Tensor& golden, bool gradient) const {
    const Comparison difference = compare(expected, found);
    DumpJudgement judged{difference.same_bits(), difference.differing, difference.elements, {}, "", {}};
    judged.first = first_difference(name, expected, found, "");
    if (judged.first) {
      judged.fault = name_of(classify(expected, found));
      judged.first->detail = judged.fault + judged.first->detail;
    }
    if (golden.empty()) return judged;
    const Bound bound =
        gradient ? calibrated_gradient_bound(golden, expected) : calibrated_bound(golden, expected);
    const Comparison error = compare(golden, found);
    const Judgement verdict = judge(bound, error);
    judged.golden = GoldenError{error.relative_l2, error.max_abs,    error.max_abs_index,
                                bound.relative_l2, verdict.accepted, verdict.reason};
    return judged;
  }

  void encapsulate(const Calls& calls, const Tensor& expected, const Tensor& found) {
    if (request_.capsules.empty() || report_.capsule) return;
    const std::string runtime = report_.runtime.empty() ? "another runtime" : report_.runtime;
    nlohmann::ordered_json environment = {{"candidate", runtime}, {"weights", report_.weights}};
    if (layout_) {
      environment["layout"] = report_.request.layout;
      environment["layout_sha256"] = layout_->sha256();
    }
    try {
      report_.capsule =
          write_capsule(request_.capsules, capsule_of(graph_.name, calls, expected, found, environment));
    } catch (const Error& error) {
      report_.capsule = fmt::format("none: {}", error.what());
    }
  }

  // ---- backward

  // What has been added up for a value so far, and by which calls.
  struct Sum {
    Tensor strict, golden;
    Calls calls;
    std::vector<std::string> lacking;
  };

  void backward() {
    const std::string last = graph_.nodes.back().name;
    require(dump_.has(kGradientPrefix + last), "{}: gradients, but not {}{} to begin with", dump_.path(),
            kGradientPrefix, last);
    const Tensor given = gradient_of(last, strict_.at(last));
    BackwardChain chain(*twin_, graph_, chain_, given);
    std::optional<BackwardChain> truth;
    if (golden_) truth.emplace(*golden_, graph_, truth_, widened(given));
    gradients_[last] = given;

    while (!chain.done()) {
      const Node& node = chain.next();
      step(node.name + ".backward");
      const std::vector<Tensor> parameters = load(node.parameters, *weights_);
      const BackwardStep chained = chain.step(parameters),
                         true_chained = truth ? truth->step(parameters) : BackwardStep();
      contribute(node, parameters, chained);
      for (std::size_t i = 0; i < chained.complete.size(); ++i)
        complete(chained.complete[i].first, node, chained.complete[i].second,
                 truth ? true_chained.complete.at(i).second : Tensor());
    }
  }

  Tensor gradient_of(const std::string& value, const Tensor& like) const {
    return dump_.tensor(kGradientPrefix + value, like.dtype(), like.shape());
  }

  void contribute(const Node& node, const std::vector<Tensor>& parameters, const BackwardStep& chained) {
    const std::vector<Tensor> in = pick(node.inputs, local_);
    const Tensor &output = strict_.at(node.name),
                 gradient = gradients_.at(node.name).reshaped(output.shape());
    const bool as_chained = all_same(in, chained.inputs) && identical(gradient, chained.gradient);
    const NodeGradients isolated =
        as_chained ? chained.gradients : twin_->backward(node, in, parameters, output, gradient);
    NodeGradients golden;
    if (golden_)
      golden = golden_->backward(node, widened(in), parameters, widened(output), widened(gradient));
    const auto lacking = through(std::span(&node.name, 1), kGradientPrefix);
    const auto add = [&](const std::string& value, const Tensor& part, const Tensor& true_part) {
      if (part.empty()) return;
      Sum& sum = sums_[value];
      sum.strict =
          sum.strict.empty() ? part : sum_of_gradients(*twin_, sum.strict, part.reshaped(sum.strict.shape()));
      if (golden_)
        sum.golden = sum.golden.empty()
                         ? true_part
                         : sum_of_gradients(*golden_, sum.golden, true_part.reshaped(sum.golden.shape()));
      sum.calls.push_back({config_, node, in, parameters, value, gradient});
      sum.lacking.insert(sum.lacking.end(), lacking.begin(), lacking.end());
    };
    for (std::size_t i = 0; i < node.parameters.size(); ++i)
      add(node.parameters[i], isolated.parameters[i], golden_ ? golden.parameters[i] : Tensor());
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      add(node.inputs[i], isolated.inputs[i], golden_ ? golden.inputs[i] : Tensor());
  }

  void complete(const std::string& name, const Node& by, const Tensor& chained, const Tensor& true_chained) {
    Sum sum = std::move(sums_.at(name));
    sums_.erase(name);
    DumpValue value{name, by.name, by.row, sum.lacking, {}, {}};
    Tensor own = sum.strict;
    if (dump_.has(kGradientPrefix + name)) {
      own = gradient_of(name, sum.strict);
      const auto shaped = [&](const Tensor& golden) {
        return golden.empty() ? golden : golden.reshaped(sum.strict.shape());
      };
      value.isolated = judgement(name, sum.strict, own, shaped(sum.golden), true);
      value.chained = judgement(name, chained.reshaped(sum.strict.shape()), own, shaped(true_chained), true);
      if (!value.isolated->equal) encapsulate(sum.calls, sum.strict, own);
    }
    report_.backward.push_back(std::move(value));
    gradients_[name] = own;
  }

  const DumpRequest& request_;
  const ReplayProgress& progress_;
  Config config_;
  Graph graph_;
  Dump dump_;
  std::optional<PackedLayout> layout_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Execution> twin_, golden_;
  DumpReport report_;
  std::int64_t steps_ = 0;
  // Forward: the dump's values, the twin's for what it lacks; the twin's chain; the golden's; and the twin's
  // outputs for the dump's inputs.
  Values local_, chain_, truth_, strict_;
  Values gradients_;  // the dump's, the twin's for what it lacks
  std::map<std::string, Sum> sums_;
};

}  // namespace

std::optional<Drift> DumpReport::first_drift(const std::vector<DumpValue>& values, bool isolated,
                                             Strictness strictness) const {
  for (const DumpValue& value : values) {
    const auto& judged = isolated ? value.isolated : value.chained;
    if (!judged) continue;
    if (strictness == Strictness::strict && !judged->equal) return judged->first;
    if (strictness == Strictness::calibrated && judged->golden && !judged->golden->accepted) {
      Drift drift = judged->first.value_or(Drift{value.value, -1, -1, -1, ""});
      drift.detail = judged->golden->reason;
      return drift;
    }
  }
  return {};
}

bool DumpReport::accepted() const {
  bool good = !layout_difference;
  for (const auto* values : {&forward, &backward})
    for (const bool isolated : {true, false}) good &= !first_drift(*values, isolated, request.strictness);
  return good;
}

DumpReport check_dump(const DumpRequest& request, const ReplayProgress& progress) {
  require(request.golden || request.strictness == Strictness::strict,
          "a calibrated verdict needs the golden's bounds");
  return Walk(request, progress).report();
}

void write_dump(const DumpRequest& request, const std::string& engine_name, bool backward,
                const std::string& path) {
  const Config config = config_named(request.config);
  const Graph graph = graph_of(request, config);
  const PackedLayout layout = named_layout(request.layout);
  const auto weights = open_weights(request.checkpoint, request.seed, config);
  const auto engine = engine_named(engine_name, config);
  Values values = own_inputs(request, graph, layout, *weights, *engine);
  for (const Node& node : graph.nodes)
    values[node.name] = engine->run(node, pick(node.inputs, values), load(node.parameters, *weights));
  if (backward) {
    const std::string last = graph.nodes.back().name;
    const Tensor given =
        synthetic_activation(request.seed, "gradient.residual_mlp", values.at(last).shape(), DType::bf16);
    BackwardChain chain(*engine, graph, values, given);
    values[kGradientPrefix + last] = given;
    while (!chain.done())
      for (const auto& [value, gradient] : chain.step(load(chain.next().parameters, *weights)).complete)
        values[kGradientPrefix + value] = gradient;
  }
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : values) specs.push_back({name, tensor.shape(), tensor.dtype()});
  write_safetensors(path, specs, [&](const TensorSpec& spec) { return values.at(spec.name); },
                    {{"layout", request.layout},
                     {"layout_sha256", layout.sha256()},
                     {"weights", weights->identity()},
                     {"runtime", "h3, engine " + engine->name()}});
}

}  // namespace h3
