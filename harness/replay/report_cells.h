// What the tables and the JSON of a replay and of its backward have in common.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/replay/replay.h"
#include "harness/report/report_parts.h"

namespace h3::report {

// "none", the drift, or why it was not looked for.
std::string drift_cell(const Paint& paint, const std::optional<Drift>& drift, bool checked,
                       const char* why_not);
std::string bindings_cell(const Bindings& bindings);               // "15 of 17 row, 2 candidate"
std::string error_cells(const std::optional<GoldenError>& error);  // error, bound, max abs
std::string provider_cell(const ProviderVerdict& verdict, std::int64_t rows);
// "as the provider's in 17 of 17", and the first that is not.
std::string ulp_cell(const std::vector<std::pair<std::string, const SampledUlp*>>& by_name);

Json json_of(const Bindings& bindings);
Json json_of(const std::optional<Drift>& drift);
Json json_of(const std::optional<GoldenError>& error);
Json json_of(const ProviderVerdict& verdict);
Json json_of(const std::optional<SampledUlp>& ulp);

}  // namespace h3::report
