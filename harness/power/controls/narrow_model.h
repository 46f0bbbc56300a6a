// Where planted faults are looked for: a narrow model with every kind of node, walked node by node. As long
// as nothing has drifted, a node's inputs are the twin's, so every verdict is the isolated one.
#pragma once

#include "harness/power/controls/control.h"
#include "model/checkpoint.h"
#include "model/layout.h"

namespace h3 {

struct NarrowModel {
  Config config;  // 3 heads of 128, hidden 256, 2 blocks, 1 refiner block
  PackedLayout layout;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Execution> strict, golden;
};
const NarrowModel& narrow_model();

// What is found first in a walk with this plant: every node is run twice and on some rows alone and in other
// company, and compared with the twin. FaultClass::none: the walk ended without a drift. A plant with a
// backward is looked for in the backward pass, as "<node>.backward". A plant that changes nothing at its node
// is FaultClass::no_effect there.
Finding first_finding(const NarrowModel& model, const Values& inputs, const Plant& plant, const Plant& both,
                      const std::function<bool(std::int64_t row)>& only_rows);

}  // namespace h3
