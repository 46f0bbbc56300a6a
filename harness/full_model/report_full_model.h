// A run of the full-model gate as people and programs read it.
#pragma once

#include <string>

#include "harness/full_model/full_model_check.h"
#include "model/json.h"

namespace h3 {

std::string to_table(const FullModelReport& report, bool colour);

// Schema: harness/full_model/full_model.schema.json. Finite numbers only; an absent finding is null.
nlohmann::ordered_json to_json(const FullModelReport& report);

// What a later gate asks for: which bounds, weights and inputs the verdict rests on, and the report's own
// SHA-256. Only for a report that is accepted.
nlohmann::ordered_json receipt_of(const FullModelReport& report, const std::string& report_text);

}  // namespace h3
