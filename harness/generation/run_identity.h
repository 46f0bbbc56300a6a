// What a generation's bytes depend on, and so what a run is tied to from its first step to its last. The
// commit is not part of it: sources that decide no byte may change between two tasks of one run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/generation_contract.h"
#include "model/json.h"

namespace h3 {

struct RunIdentity {
  std::string contract_sha256;
  std::uint64_t seed = 0;
  std::string config, weights;
  std::string engine;                        // "cpu", or "cuda on NVIDIA H200"
  std::map<std::string, std::string> trees;  // git trees of the folders that decide the bytes
  std::string device_functions_sha256;       // the tables that the strict rows read when they run
  bool operator==(const RunIdentity&) const = default;
};

nlohmann::ordered_json to_json(const RunIdentity& identity);
RunIdentity run_identity_from_json(const nlohmann::json& json, const std::string& what);

// One line about the first thing that is not the same; empty when all is.
std::string identity_difference(const RunIdentity& recorded, const RunIdentity& now);

// Of this build, on this machine.
RunIdentity run_identity(const GenerationContract& contract, std::uint64_t seed, const std::string& engine);

}  // namespace h3
