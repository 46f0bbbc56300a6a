// What the subcommands of h3 generate share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "model/checkpoint.h"
#include "model/generation_contract.h"

namespace h3::cli {

// "reduced" is fixtures/generation/reduced.json; anything with a dot or a slash is a file.
std::string contract_path(const std::string& name);

// A run's folder means its trajectory.
std::string trajectory_path(const std::string& path);

// Those that the contract names: of a folder, or synthetic ones. An Error for any other.
std::unique_ptr<Weights> weights_of(const GenerationContract& contract, const std::string& checkpoint);

void add_generate_comparisons(CLI::App& generate);  // compare, media
void add_generate_provider(CLI::App& generate);     // inputs, forced

}  // namespace h3::cli
