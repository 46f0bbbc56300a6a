// A block that is opened as a request asks for it: executions, layout, weights, graph and what goes into it.
#pragma once

#include <memory>
#include <string>

#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "model/graph.h"
#include "model/layout.h"

namespace h3 {
struct ReplayRequest;

struct BlockRun {
  // Errors: a block, layout, engine or checkpoint that does not exist.
  explicit BlockRun(const ReplayRequest& request);

  Config config;
  Graph graph;
  std::unique_ptr<Execution> engine, golden;  // golden: null where the request leaves it out
  PackedLayout layout;
  std::unique_ptr<Weights> weights;
  BlockInputs inputs;
};

}  // namespace h3
