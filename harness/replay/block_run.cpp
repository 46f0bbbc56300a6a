#include "harness/replay/block_run.h"

#include "harness/replay/replay.h"

namespace h3 {
namespace {

int checked(int block, const Config& config) {
  require(block >= 0 && block < config.num_layers, "block {}: expected 0..{}", block, config.num_layers - 1);
  return block;
}

}  // namespace

BlockRun::BlockRun(const ReplayRequest& request)
    : graph(transformer_block(config, checked(request.block, config))),
      engine(engine_named(request.engine)),
      golden(request.golden ? golden_execution(false) : nullptr),
      layout(named_layout(request.layout)),
      weights(open_weights(request.checkpoint, request.seed, config)),
      inputs(block_inputs(layout, *weights, request.seed, request.block, *engine, golden.get())) {}

}  // namespace h3
