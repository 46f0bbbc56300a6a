// A report in the Common Test Report Format (ctrf.io), for dashboards that read that. What did not run is
// failed there, with raw status not-run: its readers show "skipped" and "other" as harmless.
#pragma once

#include "model/json.h"

namespace h3::gate {

nlohmann::ordered_json ctrf_of(const nlohmann::ordered_json& report);

}  // namespace h3::gate
