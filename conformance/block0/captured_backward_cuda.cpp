// Forward and backward of the whole block as one CUDA graph on a Hopper GPU: every gradient has the bytes of
// the engine, which runs the backward node by node and waits after each.
#ifdef H3_HAVE_CUDA
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/block0/runs.h"
#include "conformance/claims.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/cuda_block_backward.h"
#include "harness/execution/cuda_graph.h"
#include "harness/execution/graph_values.h"
#include "kernels/cuda/device.h"
#include "model/layout.h"

namespace h3 {
namespace {

struct Gradients {
  Values one_by_one, replayed, replayed_again;  // by value or parameter, on the CPU
};

Values node_by_node(const Execution& engine, const Graph& graph, const Weights& weights, Values values,
                    const Tensor& output_gradient) {
  for (const Node& node : graph.nodes)
    values[node.name] = engine.run(node, pick(node.inputs, values), load(node.parameters, weights));
  Values gradients = {{graph.nodes.back().name, output_gradient}};
  BackwardChain chain(engine, graph, std::move(values), output_gradient);
  while (!chain.done()) {
    const BackwardStep step = chain.step(load(chain.next().parameters, weights));
    for (const auto& [name, gradient] : step.complete) gradients[name] = gradient;
  }
  return gradients;
}

Gradients run(const std::string& layout_name) {
  const Config config;
  const Graph graph = transformer_block(config, 0);
  const auto weights = open_weights("", kDefaultSeed, config);
  const auto engine = cuda_execution();
  const PackedLayout layout = named_layout(layout_name);
  const Values inputs = block_inputs(layout, *weights, kDefaultSeed, 0, *engine, nullptr).candidate;
  const Tensor output_gradient = stand_in_output_gradient(layout, config, kDefaultSeed);

  Gradients gradients;
  gradients.one_by_one = node_by_node(*engine, graph, *weights, inputs, output_gradient);

  CudaBlock block(config, graph, *weights);
  Values on_gpu = inputs;
  for (auto& [name, value] : on_gpu)
    if (name != "adaln_indices") value = cuda::upload(value);
  block.take(on_gpu);
  CudaBlockBackward backward(block);
  cuda::copy(cuda::upload(output_gradient), backward.output_gradient());
  cuda::synchronize();
  const CudaGraph trained([&](Stream stream) {
    block.launch(CudaBlock::Norms::not_kept, stream);
    backward.launch(stream);
  });
  for (Values* replayed : {&gradients.replayed, &gradients.replayed_again}) {
    block.poison_outputs();
    trained.run();
    for (const auto& [name, gradient] : gradients.one_by_one)
      (*replayed)[name] = cuda::download(backward.gradient(name)).reshaped(gradient.shape());
  }
  return gradients;
}

// One run per layout, shared by the claims about its gradients.
const Gradients& gradients_of(const std::string& layout) {
  static std::map<std::string, Gradients> all;
  if (const auto found = all.find(layout); found != all.end()) return found->second;
  return all.emplace(layout, run(layout)).first->second;
}

struct CapturedGradientRow {
  const char* layout;
  std::string value;
};
void PrintTo(const CapturedGradientRow& row, std::ostream* out) {
  std::string name = row.value;
  for (char& c : name)
    if (c == '.') c = '_';
  *out << row.layout << "_cuda_" << name;
}

struct CapturedBackward : testing::TestWithParam<CapturedGradientRow> {
  void SetUp() override { H3_NEEDS_ENGINE("cuda"); }
};

TEST_P(CapturedBackward, equals_node_by_node) {
  const Gradients& gradients = gradients_of(GetParam().layout);
  const Tensor& expected = gradients.one_by_one.at(GetParam().value);
  EXPECT_TRUE(bitwise_equal(expected, gradients.replayed.at(GetParam().value)));
  EXPECT_TRUE(bitwise_equal(expected, gradients.replayed_again.at(GetParam().value))) << "second replay";
}

std::vector<CapturedGradientRow> captured_gradients() {
  std::vector<CapturedGradientRow> rows;
  for (const char* layout : {"tiny", "small"}) {
    for (const char* input : {"hidden_states", "temb"}) rows.push_back({layout, input});
    for (const Node& node : transformer_block(Config{}, 0).nodes) {
      rows.push_back({layout, node.name});
      for (const auto& parameter : node.parameters) rows.push_back({layout, parameter});
    }
  }
  return rows;
}
INSTANTIATE_TEST_SUITE_P(block0_cuda, CapturedBackward, testing::ValuesIn(captured_gradients()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
#endif
