// A replay as people and programs read it: a table on the terminal, report.json for everything else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/replay.h"

namespace h3 {

// The 17-node table with its verdict lines. Colour only when asked for.
std::string to_table(const ReplayReport& report, bool colour);

// Schema: harness/report.schema.json. Finite numbers only; an absent finding is null.
nlohmann::ordered_json to_json(const ReplayReport& report);

}  // namespace h3
