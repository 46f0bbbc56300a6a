// The values of a graph while it is walked: picked for a node, dropped when nothing reads them any more.
#pragma once

#include <string>
#include <vector>

#include "harness/execution/block_inputs.h"
#include "model/checkpoint.h"
#include "model/graph.h"

namespace h3 {

// By name, in the given order. Errors: an unknown name.
std::vector<Tensor> pick(const std::vector<std::string>& names, const Values& values);
std::vector<Tensor> load(const std::vector<std::string>& names, const Weights& weights);

// Drops every value that no node after `done` reads: the widest tensor of a block is 28,672 columns.
void release(Values& values, const Graph& graph, std::size_t done);

}  // namespace h3
