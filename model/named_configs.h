// The model sizes that a run can be asked for by name.
#pragma once

#include <string>

#include "model/config.h"

namespace h3 {

// "released", or "reduced": the same graph at widths that a CPU computes in seconds, 4 blocks and 86
// parameter tensors. Heads stay 128 wide and 96 of their channels rotate, as the rows have it; attention
// stays wider than the residual stream, so that a mix-up of the two is an error here, too. "narrow": as
// reduced, with as many heads as nine ranks need and channels that split unevenly. An Error for another name.
Config config_named(const std::string& name);

}  // namespace h3
