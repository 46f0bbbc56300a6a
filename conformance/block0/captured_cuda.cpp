// The whole block as one CUDA graph on a Hopper GPU, with launches shared between nodes and every node's
// output kept: node by node the bytes of the engine, which runs them one by one and waits after each.
#ifdef H3_HAVE_CUDA
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/block0/runs.h"
#include "conformance/claims.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/cuda_block.h"
#include "harness/execution/cuda_graph.h"
#include "kernels/cuda/device.h"
#include "model/layout.h"

namespace h3 {
namespace {

struct Outputs {
  Values one_by_one, replayed, replayed_again, without_norms;  // by node, on the CPU
};

Values downloaded(const CudaBlock& block) {
  Values values;
  for (const Node& node : block.graph().nodes) values[node.name] = cuda::download(block.value(node.name));
  return values;
}

Outputs run(const std::string& layout_name) {
  const Config config;
  const Graph graph = transformer_block(config, 0);
  const auto weights = open_weights("", kDefaultSeed, config);
  const auto engine = cuda_execution();
  const Values inputs =
      block_inputs(named_layout(layout_name), *weights, kDefaultSeed, 0, *engine, nullptr).candidate;

  Outputs outputs;
  Values values = inputs;
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> in, parameters;
    for (const auto& name : node.inputs) in.push_back(values.at(name));
    for (const auto& name : node.parameters) parameters.push_back(weights->tensor(name));
    const Tensor y = engine->run(node, in, parameters);
    values[node.name] = y;
    outputs.one_by_one[node.name] = y.reshaped({y.elements() / node.cols, node.cols});
  }

  CudaBlock block(config, graph, *weights);
  Values on_gpu = inputs;
  for (auto& [name, value] : on_gpu)
    if (name != "adaln_indices") value = cuda::upload(value);
  block.take(on_gpu);
  const CudaGraph kept([&](Stream stream) { block.launch(CudaBlock::Norms::kept, stream); });
  kept.run();
  outputs.replayed = downloaded(block);
  block.poison_outputs();
  kept.run();
  outputs.replayed_again = downloaded(block);
  block.poison_outputs();
  CudaGraph([&](Stream stream) { block.launch(CudaBlock::Norms::not_kept, stream); }).run();
  outputs.without_norms = downloaded(block);
  return outputs;
}

// One run per layout, shared by the claims about its nodes.
const Outputs& outputs_of(const std::string& layout) {
  static std::map<std::string, Outputs> all;
  if (const auto found = all.find(layout); found != all.end()) return found->second;
  return all.emplace(layout, run(layout)).first->second;
}

struct CapturedRow {
  const char* layout;
  std::string node;
};
void PrintTo(const CapturedRow& row, std::ostream* out) { *out << row.layout << "_cuda_" << row.node; }

struct CapturedBlock : testing::TestWithParam<CapturedRow> {
  void SetUp() override { H3_NEEDS_ENGINE("cuda"); }
};

TEST_P(CapturedBlock, equals_node_by_node) {
  const Outputs& outputs = outputs_of(GetParam().layout);
  const Tensor& expected = outputs.one_by_one.at(GetParam().node);
  EXPECT_TRUE(bitwise_equal(expected, outputs.replayed.at(GetParam().node)));
  EXPECT_TRUE(bitwise_equal(expected, outputs.replayed_again.at(GetParam().node))) << "second replay";
}

// As it is timed: without the outputs of q_norm and k_norm, which keep their poison.
TEST_P(CapturedBlock, does_not_need_the_norms_kept) {
  const Outputs& outputs = outputs_of(GetParam().layout);
  const std::string& node = GetParam().node;
  const Tensor& got = outputs.without_norms.at(node);
  if (node != "q_norm" && node != "k_norm") {
    EXPECT_TRUE(bitwise_equal(outputs.one_by_one.at(node), got));
    return;
  }
  for (const Bf16 word : got.values<Bf16>()) ASSERT_EQ(std::uint16_t(word), 0xffff) << "was written";
}

std::vector<CapturedRow> captured_rows() {
  std::vector<CapturedRow> rows;
  for (const char* layout : {"tiny", "small"})
    for (const Node& node : transformer_block(Config{}, 0).nodes) rows.push_back({layout, node.name});
  return rows;
}
INSTANTIATE_TEST_SUITE_P(block0_cuda, CapturedBlock, testing::ValuesIn(captured_rows()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
#endif
