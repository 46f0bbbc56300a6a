// The backward of a block that lies on the GPU: gradients of every node's output, of the block's input, of
// temb and of the parameters, all memory taken once. Only in builds with a CUDA toolkit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/execution/cuda_block.h"
#include "harness/execution/node_backward_cuda.h"

namespace h3 {

class CudaBlockBackward {
 public:
  // For what the block holds now; from here on its forward keeps attention's log-sum-exp. Every launch reads
  // what a forward has left (CudaBlock::Norms::not_kept is enough).
  explicit CudaBlockBackward(CudaBlock& block);

  // All nodes in reverse order. output_gradient() has been filled. Does not wait.
  void launch(Stream stream);

  // One node's, on the gradient that its consumers have left. Of a projection also one half at a time.
  void launch(const Node& node, Stream stream);
  void launch_input_gradient(const Node& projection, Stream stream);
  void launch_weight_gradient(const Node& projection, Stream stream);

  // What reaches a node's output, hidden_states or temb; or a parameter's gradient.
  const Tensor& gradient(const std::string& name) const { return gradients_.at(name); }
  Tensor& output_gradient() { return gradients_.at(block_.graph().nodes.back().name); }
  const NodeGradients& written_by(const Node& node) const { return steps_.at(node.name).buffers.gradients; }

 private:
  struct Sum {
    Tensor a, b, y;  // y = R(a + b)
  };
  struct Step {
    Tensor gradient;  // of the node's output
    BackwardBuffers buffers;
    std::vector<Sum> sums;  // with what earlier steps have left for the same values
  };
  struct Product {
    Tensor dy, x, weight, dx, dweight;
  };
  Product product(const Node& projection);
  void add(Step& step, const std::string& value, const Tensor& contribution);

  CudaBlock& block_;
  std::map<std::string, Step> steps_;
  std::map<std::string, Tensor> gradients_;
};

}  // namespace h3
