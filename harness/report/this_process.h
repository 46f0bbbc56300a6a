// What runs here, for the ledger: the build, the variables that change what it does, and the libraries.
#pragma once

#include <nlohmann/json.hpp>

namespace h3 {

// {"type", "compiler", "cxx_flags", "cuda_compiler", "cuda_flags", "chain_isa"}; null without CUDA.
nlohmann::ordered_json build_facts();

// Of a closed list of environment variables those that are set, by name.
nlohmann::ordered_json set_variables();

// Shared libraries of this process at this moment, by name: [{"name" (of the file), "sha256"}]; null for a
// file that cannot be read.
nlohmann::ordered_json loaded_libraries();

}  // namespace h3
