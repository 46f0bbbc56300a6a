// The nodes outside the blocks (model/graph.h: step_tables, model_entry, packed_sequence, model_exit), one
// dispatch per execution.
#pragma once

#include <span>

#include "golden/product.h"
#include "harness/execution/execution.h"

namespace h3 {

bool is_boundary(const Node& node);
bool is_fp32_projection(const Node& node);  // of the inputs, and the heads

// The strict rows' CPU twins.
Tensor run_boundary(const Node& node, const Config& config, std::span<const Tensor> inputs,
                    std::span<const Tensor> parameters);
NodeGradients boundary_backward(const Node& node, const Config& config, std::span<const Tensor> inputs,
                                std::span<const Tensor> parameters, const Tensor& gradient);

Tensor run_golden_boundary(const Node& node, const Config& config, std::span<const Tensor> inputs,
                           std::span<const Tensor> parameters, golden::Summation summation);
NodeGradients golden_boundary_backward(const Node& node, const Config& config, std::span<const Tensor> inputs,
                                       std::span<const Tensor> parameters, const Tensor& gradient,
                                       golden::Summation summation);

}  // namespace h3
