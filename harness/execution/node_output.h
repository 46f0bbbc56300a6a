// Where a node's result goes: dtype and shape follow from the node and from its inputs.
#pragma once

#include <span>

#include "model/config.h"
#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

// On the CPU, poisoned: what the strict row, or somebody else's kernel, has to fill.
Tensor output_of(const Node& node, const Config& config, std::span<const Tensor> inputs);

}  // namespace h3
