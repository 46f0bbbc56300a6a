#include "harness/cli/generate_parts.h"

#include <filesystem>

#include "fixtures/path.h"
#include "harness/generation/generation_run.h"

namespace h3::cli {

std::string contract_path(const std::string& name) {
  if (name.find_first_of("./") != std::string::npos) return name;
  return fixture_path("generation/" + name + ".json").string();
}

std::string trajectory_path(const std::string& path) {
  return std::filesystem::is_directory(path) ? trajectory_of_run(path) : path;
}

std::unique_ptr<Weights> weights_of(const GenerationContract& contract, const std::string& checkpoint) {
  auto weights = open_weights(checkpoint, contract.weights_seed, contract.config);
  require(weights->identity() == contract.weights, "weights {}: the contract is for {}", weights->identity(),
          contract.weights);
  require(weights->config() == contract.config, "{}: weights of another model than config {}", checkpoint,
          contract.config_name);
  return weights;
}

}  // namespace h3::cli
