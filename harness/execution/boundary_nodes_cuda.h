// The nodes outside the blocks as launches on a GPU. Only in builds with a CUDA toolkit.
#pragma once

#include "harness/execution/boundary_nodes.h"

namespace h3 {

// Operands lie on the GPU; indices, positions and timesteps on the CPU. Results lie on the GPU; some kernels
// may still run.
Tensor launch_boundary(const Node& node, const Config& config, std::span<const Tensor> inputs,
                       std::span<const Tensor> parameters);
NodeGradients launch_boundary_backward(const Node& node, const Config& config, std::span<const Tensor> inputs,
                                       std::span<const Tensor> parameters, const Tensor& gradient);

}  // namespace h3
