// The verdict and everything that was measured, for programs: report.json, whose fields
// ctest/evidence/report.schema.json describes, and receipt.json, its head for the next gate.
#pragma once

#include <string>

#include "ctest/verdict.h"
#include "model/json.h"

namespace h3::gate {

nlohmann::ordered_json report_of(const Verdict& verdict, const Ledger& ledger);

// Counts, machine, git tree, and the hashes of what the verdict was made of and of the files that show it.
nlohmann::ordered_json receipt_of(const nlohmann::ordered_json& report, const std::string& junit);

}  // namespace h3::gate
