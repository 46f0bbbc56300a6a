// The bytes of block 0, derived by the CPU twins alone: no GPU, no golden, no record.
#pragma once

#include <map>
#include <set>
#include <string>

namespace h3 {

// XXH3-128 by node, chained from the synthetic weights and inputs of a replay (harness/replay/replay.h) of
// this layout, up to the last of `nodes`. Errors: an unknown layout or node.
std::map<std::string, std::string> twin_digests(const std::string& layout,
                                                const std::set<std::string>& nodes);

}  // namespace h3
