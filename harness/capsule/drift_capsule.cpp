#include "harness/capsule/drift_capsule.h"

#include <algorithm>

#include "harness/capsule/capsule.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/graph_values.h"
#include "harness/replay/block_run.h"

namespace h3 {
namespace {

ReplayRequest without_golden(ReplayRequest request) {
  request.golden = false;
  return request;
}

}  // namespace

struct FirstDrift::Parts {
  explicit Parts(const ReplayRequest& asked)
      : request(without_golden(asked)), run(request), twin(cpu_execution(run.config)) {}

  // Kernels of the GPU are rows, too, and others than the twin's.
  bool is_the_twin(Binding binding) const {
    return run.engine->device() == Device::cpu && binding == Binding::row;
  }
  void look(const NodeCall& asked, const Tensor& of_twin, const Tensor& of_engine) {
    if (of_twin.empty() || !first_difference(asked.node.name, of_twin, of_engine, "")) return;
    call = asked;
    expected = of_twin;
    found = of_engine;
  }

  ReplayRequest request;
  BlockRun run;
  std::unique_ptr<Execution> twin;
  std::optional<NodeCall> call;  // what differed, whole
  Tensor expected, found;
};

FirstDrift::FirstDrift(const ReplayRequest& request) : parts_(std::make_unique<Parts>(request)) {}
FirstDrift::~FirstDrift() = default;

ReplayObserver FirstDrift::observer() {
  return [this](const Node& node, const Values& candidate, const Values&) {
    if (parts_->call || parts_->is_the_twin(parts_->run.engine->binding(node))) return;
    const NodeCall call = {parts_->run.config, node, pick(node.inputs, candidate),
                           load(node.parameters, *parts_->run.weights)};
    parts_->look(call, h3::run(call, *parts_->twin), candidate.at(node.name));
  };
}

void FirstDrift::look_at_backward(const ReplayProgress& progress) {
  Parts& p = *parts_;
  const auto is_the_twin = [&](const Node& node) {
    return p.is_the_twin(p.run.engine->backward_binding(node));
  };
  if (p.call || std::ranges::all_of(p.run.graph.nodes, is_the_twin)) return;
  Values values = p.run.inputs.candidate;
  for (const Node& node : p.run.graph.nodes)
    values[node.name] =
        p.run.engine->run(node, pick(node.inputs, values), load(node.parameters, *p.run.weights));
  BackwardChain chain(*p.run.engine, p.run.graph, std::move(values),
                      stand_in_output_gradient(p.run.layout, p.run.config, p.request.seed));
  for (std::int64_t done = 0; !chain.done() && !p.call; ++done) {
    const Node& node = chain.next();
    if (progress) progress(done, node.name + ".backward");
    const BackwardStep step = chain.step(load(node.parameters, *p.run.weights));
    if (is_the_twin(node)) continue;
    const NodeGradients twin =
        p.twin->backward(node, step.inputs, step.parameters, step.output, step.gradient);
    NodeCall call = {p.run.config, node, step.inputs, step.parameters, "", step.gradient};
    for (std::size_t i = 0; i < node.parameters.size() && !p.call; ++i) {
      call.gradient_of = node.parameters[i];
      p.look(call, twin.parameters[i], step.gradients.parameters[i]);
    }
    for (std::size_t i = 0; i < node.inputs.size() && !p.call; ++i) {
      call.gradient_of = node.inputs[i];
      p.look(call, twin.inputs[i], step.gradients.inputs[i]);
    }
  }
}

std::optional<std::string> FirstDrift::write(const std::string& folder) const {
  const Parts& p = *parts_;
  if (!p.call) return {};
  const nlohmann::ordered_json environment = {{"candidate", p.run.engine->name()},
                                              {"layout", p.request.layout},
                                              {"layout_sha256", p.run.layout.sha256()},
                                              {"weights", p.run.weights->identity()},
                                              {"seed", p.request.seed}};
  const auto engine = [&](const Config& config) { return engine_named(p.request.engine, config); };
  return write_capsule(folder,
                       capsule_of(p.run.graph.name, {*p.call}, p.expected, p.found, environment, engine));
}

}  // namespace h3
