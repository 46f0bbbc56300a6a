#include "harness/generation/run_identity.h"

#include "fixtures/manifest.h"
#include "harness/execution/execution.h"
#include "harness/report/this_process.h"
#include "model/error.h"

namespace h3 {

nlohmann::ordered_json to_json(const RunIdentity& identity) {
  return {{"contract_sha256", identity.contract_sha256},
          {"seed", identity.seed},
          {"config", identity.config},
          {"weights", identity.weights},
          {"engine", identity.engine},
          {"trees", identity.trees},
          {"device_functions_sha256", identity.device_functions_sha256}};
}

RunIdentity run_identity_from_json(const nlohmann::json& json, const std::string& what) {
  RunIdentity identity;
  try {
    json.at("contract_sha256").get_to(identity.contract_sha256);
    json.at("seed").get_to(identity.seed);
    json.at("config").get_to(identity.config);
    json.at("weights").get_to(identity.weights);
    json.at("engine").get_to(identity.engine);
    json.at("trees").get_to(identity.trees);
    json.at("device_functions_sha256").get_to(identity.device_functions_sha256);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not the identity of a run: {}", what, error.what());
  }
  return identity;
}

std::string identity_difference(const RunIdentity& recorded, const RunIdentity& now) {
  const auto differs = [](const auto& name, const auto& a, const auto& b) {
    return a == b ? std::string() : fmt::format("{} is {}, the run was begun with {}", name, b, a);
  };
  for (const std::string& line :
       {differs("contract", recorded.contract_sha256, now.contract_sha256),
        differs("seed", recorded.seed, now.seed), differs("config", recorded.config, now.config),
        differs("weights", recorded.weights, now.weights), differs("engine", recorded.engine, now.engine),
        differs("device_functions.h5", recorded.device_functions_sha256, now.device_functions_sha256)})
    if (!line.empty()) return line;
  for (const auto& [folder, tree] : now.trees) {
    const auto found = recorded.trees.find(folder);
    const std::string line =
        differs("tree of " + folder, found == recorded.trees.end() ? "no such tree" : found->second, tree);
    if (!line.empty()) return line;
  }
  return recorded == now ? "" : "the run was begun with other source trees";
}

RunIdentity run_identity(const GenerationContract& contract, std::uint64_t seed, const std::string& engine) {
  return {contract.sha256,
          seed,
          contract.config_name,
          contract.weights,
          engine == "cuda" ? "cuda on " + cuda_device_name() : engine,
          source_trees(),
          recorded_sha256("device_functions.h5")};
}

}  // namespace h3
