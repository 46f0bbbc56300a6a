#include "harness/drift_capsule.h"

#include "harness/backward_chain.h"
#include "harness/block_run.h"
#include "harness/capsule.h"
#include "harness/first_difference.h"
#include "harness/graph_values.h"

namespace h3 {
namespace {

class Walk {
 public:
  Walk(const ReplayRequest& request, const std::string& folder)
      : request_(request), folder_(folder), run_(request), twin_(cpu_execution(run_.config)) {}

  std::optional<std::string> forward(const ReplayProgress& progress) {
    values_ = run_.inputs.candidate;
    for (const Node& node : run_.graph.nodes) {
      if (progress)
        progress(std::int64_t(values_.size()) - std::int64_t(run_.graph.inputs.size()), node.name);
      const NodeCall call = {run_.config, node, pick(node.inputs, values_),
                             load(node.parameters, *run_.weights)};
      const Tensor found = run(call, *run_.engine), expected = run(call, *twin_);
      if (first_difference(node.name, expected, found, "")) return written(call, expected, found);
      values_[node.name] = found;
    }
    return {};
  }

  std::optional<std::string> backward(const ReplayProgress& progress) {
    BackwardChain chain(*run_.engine, run_.graph, std::move(values_),
                        stand_in_output_gradient(run_.layout, run_.config, request_.seed));
    while (!chain.done()) {
      const Node& node = chain.next();
      if (progress) progress(kReplaySteps, node.name + ".backward");
      const BackwardStep step = chain.step(load(node.parameters, *run_.weights));
      const NodeGradients twin =
          twin_->backward(node, step.inputs, step.parameters, step.output, step.gradient);
      NodeCall call = {run_.config, node, step.inputs, step.parameters, "", step.gradient};
      const auto looked_at = [&](const std::string& of, const Tensor& expected,
                                 const Tensor& found) -> std::optional<std::string> {
        if (expected.empty() || !first_difference(of, expected, found, "")) return {};
        call.gradient_of = of;
        return written(call, expected, found);
      };
      for (std::size_t i = 0; i < node.parameters.size(); ++i)
        if (auto path = looked_at(node.parameters[i], twin.parameters[i], step.gradients.parameters[i]))
          return path;
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (auto path = looked_at(node.inputs[i], twin.inputs[i], step.gradients.inputs[i])) return path;
    }
    return {};
  }

 private:
  std::string written(const NodeCall& call, const Tensor& expected, const Tensor& found) const {
    const nlohmann::ordered_json environment = {{"candidate", run_.engine->name()},
                                                {"layout", request_.layout},
                                                {"layout_sha256", run_.layout.sha256()},
                                                {"weights", run_.weights->identity()},
                                                {"seed", request_.seed}};
    const auto engine = [&](const Config& config) { return engine_named(request_.engine, config); };
    return write_capsule(folder_, capsule_of(run_.graph.name, {call}, expected, found, environment, engine));
  }

  const ReplayRequest& request_;
  const std::string& folder_;
  BlockRun run_;
  std::unique_ptr<Execution> twin_;
  Values values_;
};

}  // namespace

std::optional<std::string> write_first_drift(const ReplayRequest& request, bool backward,
                                             const std::string& folder, const ReplayProgress& progress) {
  ReplayRequest plain = request;
  plain.golden = false;
  Walk walk(plain, folder);
  if (auto path = walk.forward(progress)) return path;
  return backward ? walk.backward(progress) : std::nullopt;
}

}  // namespace h3
