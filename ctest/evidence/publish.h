// Makes a folder in which a gate ran fit to leave its machine.
#pragma once

#include <string>

#include "ctest/evidence/redaction.h"

namespace h3::gate {

// Redacts what happened, derives everything else from it (derived.h) and seals the folder. Errors: seal.h.
void publish(const std::string& folder, PrivateNames names = private_names());

// The same for a folder whose h3_gate was killed: the ledger says so. Errors: it is sealed already, or its
// ledger has no whole beginning.
void publish_interrupted(const std::string& folder);

}  // namespace h3::gate
