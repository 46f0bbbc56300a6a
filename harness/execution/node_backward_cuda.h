// A node's backward as launches on a GPU. Only in builds with a CUDA toolkit.
#pragma once

#include "harness/execution/execution.h"
#include "harness/execution/execution_cuda.h"

namespace h3 {

// What a backward writes, and what its launches need besides; all on the GPU.
struct BackwardBuffers {
  NodeGradients gradients;     // empty where there is none, and where the node hands its gradient on as it is
  Tensor workspace;            // fp32
  Tensor z, dz;                // (U,time_embed_dim) BF16, for adaln_projection
  Tensor output, log_sum_exp;  // (R,inner) BF16 and (heads,R) FP32, for attention: filled by its forward
};

// The parts of a table's gradient that the node does not write are zero.
BackwardBuffers allocate_backward(const Node& node, const Config& config, const NodeOperands& operands);

// dy: the gradient of the node's output, on the GPU. Attention starts from its forward (attention_forward).
// Does not wait for the stream.
void launch_node_backward(const Node& node, const Config& config, const NodeOperands& operands,
                          const Tensor& dy, BackwardBuffers& buffers, Stream stream);

// Attention's output and log-sum-exp, which its backward starts from.
void attention_forward(const Config& config, const NodeOperands& operands, BackwardBuffers& buffers,
                       Stream stream);

}  // namespace h3
