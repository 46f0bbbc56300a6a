// The first node of a block that leaves its strict row, as a capsule.
#pragma once

#include <optional>
#include <string>

#include "harness/replay.h"

namespace h3 {

// Walks the block again, forward and where asked for backward, with the CPU twin beside the request's engine
// on the engine's own values, and stops at the first node whose bytes differ. The capsule's path; nothing
// when no node differs.
std::optional<std::string> write_first_drift(const ReplayRequest& request, bool backward,
                                             const std::string& folder, const ReplayProgress& progress = {});

}  // namespace h3
