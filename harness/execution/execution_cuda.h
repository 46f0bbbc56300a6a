// A node of a graph as launches on a GPU: what the engine runs and the benchmark times. Only in builds with a
// CUDA toolkit.
#pragma once

#include <span>

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

struct NodeOperands {
  std::span<const Tensor>
      inputs;  // in the node's order, on the GPU; of adaln_indices the handle is not looked at
  std::span<const Tensor> parameters;     // on the GPU
  const cuda::RowIndex* index = nullptr;  // adaln_indices, for the nodes that take them
  Tensor scratch;                         // (U,time_embed_dim) BF16 on the GPU, for adaln_projection
  Tensor log_sum_exp = Tensor();  // (heads,R) FP32 on the GPU, written by attention where there is one
};

// y (rows, node.cols) BF16 on the GPU, of modulation tables (3 rows, node.cols). Does not wait for the
// stream.
void launch_node(const Node& node, const Config& config, const NodeOperands& operands, Tensor& y,
                 Stream stream);

// A parameter on the GPU. Synthetic ones are made there: a block in milliseconds, and nothing has to stay.
Tensor device_parameter(const Weights& weights, const std::string& name);

}  // namespace h3
