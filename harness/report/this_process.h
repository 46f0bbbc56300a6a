// What runs here, for ledgers and runs: the build and its sources, the variables that change what it does,
// and the libraries.
#pragma once

#include <map>
#include <string>

#include "model/json.h"

namespace h3 {

// {"type", "compiler", "cxx_flags", "cuda_compiler", "cuda_flags", "chain_isa"}; null without CUDA.
nlohmann::ordered_json build_facts();

// Of a closed list of environment variables those that are set, by name.
nlohmann::ordered_json set_variables();

// Shared libraries of this process at this moment, by name: [{"name" (of the file), "sha256"}]; null for a
// file that cannot be read.
nlohmann::ordered_json loaded_libraries();

// The git trees of the folders that decide the bytes, as they were when this was built.
const std::map<std::string, std::string>& source_trees();
std::string executable_sha256();

}  // namespace h3
