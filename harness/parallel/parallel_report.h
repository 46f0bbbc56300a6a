// What came of a block on several ranks, for people and for the process that started the ranks.
#pragma once

#include <span>
#include <string>

#include "harness/parallel/parallel_block.h"
#include "model/json.h"

namespace h3 {

nlohmann::json to_json(const RankReport& report);
RankReport rank_report_of(const nlohmann::json& json);

// What a rank receives the usual way for the same node ("o_proj", "o_proj backward"): rows gathered, sums of
// parts scattered (tensor); heads for sequence and all-reduced weight gradients (sequence). 0 where nothing
// is sent.
std::int64_t usual_bytes(const std::string& plan, const std::string& node, const Graph& block,
                         std::int64_t rows, std::int64_t timesteps, const Config& config, int ranks);

// `how`: "logical, one process". One line for each rank, then first_drift and the verdict.
std::string to_table(const ParallelRequest& request, const std::string& how,
                     std::span<const RankReport> reports);

// Bytes received per rank (mean) and node beside the usual way, and the longest time to receive them.
std::string traffic_table(const ParallelRequest& request, std::span<const RankReport> reports);

}  // namespace h3
