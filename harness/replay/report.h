// A replay as people and programs read it: a table on the terminal, report.json for everything else.
#pragma once

#include <string>

#include "harness/replay/replay.h"
#include "harness/replay/replay_backward.h"
#include "model/json.h"

namespace h3 {

// The 17-node table with its verdict lines, and that of the 31 gradients. Colour only when asked for.
std::string to_table(const ReplayReport& report, bool colour);
std::string to_table(const BackwardReport& report, bool colour);

// Schema: harness/replay/report.schema.json. Finite numbers only; an absent finding is null. With a backward,
// `accepted` is that of both.
nlohmann::ordered_json to_json(const ReplayReport& report);
nlohmann::ordered_json to_json(const BackwardReport& backward);  // the section "backward"
nlohmann::ordered_json to_json(const ReplayReport& report, const BackwardReport& backward);

}  // namespace h3
