#include "harness/full_model/full_model_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fixtures/manifest.h"
#include "fixtures/path.h"
#include "harness/full_model/full_model.h"
#include "model/checkpoint.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/layout.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSingleFactor = 1.5;  // of the rule with one provider

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot be read", path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

const TensorBound& FullModelBounds::of(Pass pass, const std::string& name) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const TensorBound& bound) { return bound.pass == pass && bound.name == name; });
  require(found != tensors.end(), "bounds of {}: none for {} {}", config, name_of(pass), name);
  return *found;
}

std::string ensemble_file(const std::string& config, const std::string& layout) {
  return fmt::format("full_model_{}_{}.json", config, layout);
}
std::string bounds_file(const std::string& config, const std::string& layout) {
  return fmt::format("full_model_{}_{}_bounds.json", config, layout);
}

Ensemble load_ensemble(const std::string& config, const std::string& layout) {
  const std::string name = ensemble_file(config, layout), path = fixture_path(name).string();
  recorded_sha256(name);
  Ensemble ensemble = ensemble_from_json(read_json(path), path);
  require(ensemble.config == config && ensemble.layout == layout,
          "{}: config '{}' and layout '{}', expected '{}' and '{}'", path, ensemble.config, ensemble.layout,
          config, layout);
  return ensemble;
}

std::map<std::string, std::string> inventory_of(const Ensemble& ensemble) {
  const Config config = config_named(ensemble.config);
  const PackedLayout layout = named_layout(ensemble.layout);
  std::map<std::string, std::string> inventory = {
      {"ensemble",
       digest_file(fixture_path(ensemble_file(ensemble.config, ensemble.layout)).string()).sha256},
      {"architecture", fingerprint(config).sha256},
      {"layout", layout.sha256()},
  };
  for (const auto& [name, tensor] : model_inputs(layout, config, ensemble.seed))
    inventory["input." + name] = sha256_hex(tensor.byte_span());
  for (const auto& [name, tensor] : model_output_gradients(layout, config, ensemble.seed))
    inventory["gradient." + name] = sha256_hex(tensor.byte_span());
  return inventory;
}

std::string bounds_text(const Ensemble& ensemble) {
  const EnsembleRule chained = rule_of(ensemble, Measure::chained),
                     isolated = rule_of(ensemble, Measure::isolated);
  Json json = {
      {"schema", "h3.full_model_bounds.v2"},
      {"config", ensemble.config},
      {"layout", ensemble.layout},
      {"weights", ensemble.weights},
      {"seed", ensemble.seed},
      {"provider", ensemble.provenance},
      {"formula", "relative_l2 <= k * max over the members of their distance to float64 + floor"},
      {"k_is", "the smallest tenth at which every member, held out, passes against the others"},
      {"floor_is", "u / sqrt(3): one rounding to the tensor's own type, u = 2^-8 for bf16, 2^-24 for fp32"},
      {"chained_is",
       "against float64 that runs the whole model; a limit of 1 or more is blind and decides nothing"},
      {"isolated_is",
       "against float64 that gets what the judged run gave to the stage; where it is blind, the twin's bytes "
       "decide"},
      {"single_is",
       "chained, 1.5 * the default member's error + floor: the rule with one provider, reported only"},
      {"k", {{"chained", chained.k}, {"isolated", isolated.k}}},
      {"inventory", inventory_of(ensemble)},
  };
  for (std::size_t m = 0; m < ensemble.members.size(); ++m)
    json["members"].push_back(
        {{"name", ensemble.members[m]},
         {"factor_when_held_out", {{"chained", chained.held_out[m]}, {"isolated", isolated.held_out[m]}}},
         {"decided_by", {{"chained", chained.tensor[m]}, {"isolated", isolated.tensor[m]}}}});
  json["tensors"] = Json::array();
  std::string text = json.dump(1);
  text.resize(text.rfind(']'));
  for (const auto& tensor : ensemble.tensors) {  // one line each
    const double floor = rounding_floor(tensor.dtype),
                 limit = isolated.k * largest_error(tensor, Measure::isolated) + floor;
    Json entry = {{"pass", name_of(tensor.pass)},
                  {"name", tensor.name},
                  {"dtype", name_of(tensor.dtype)},
                  {"chained", chained.k * largest_error(tensor, Measure::chained) + floor},
                  {"isolated", limit},
                  {"single",
                   {{"relative_l2", kSingleFactor * tensor.errors[0].chained + floor},
                    {"max_abs", kSingleFactor * tensor.default_max_abs}}},
                  {"norm", tensor.norm}};
    if (!tensor.xxh3_128.empty()) entry["xxh3_128"] = tensor.xxh3_128;
    text += (&tensor == &ensemble.tensors.front() ? "\n" : ",\n") + entry.dump();
  }
  return text + "\n]}\n";
}

FullModelBounds load_bounds(const std::string& config, const std::string& layout) {
  const std::string name = bounds_file(config, layout), path = fixture_path(name).string();
  FullModelBounds bounds;
  bounds.sha256 = recorded_sha256(name);
  const Ensemble ensemble = load_ensemble(config, layout);
  const std::string text = text_of(path);
  const nlohmann::json json = parse_json(text, path);
  bounds.inventory = json.at("inventory").get<std::map<std::string, std::string>>();
  for (const auto& [what, sha256] : inventory_of(ensemble)) {
    const auto recorded = bounds.inventory.find(what);
    require(recorded != bounds.inventory.end() && recorded->second == sha256,
            "{}: {} has SHA-256 {}, the bounds follow from {}", path, what, sha256,
            recorded == bounds.inventory.end() ? "none" : recorded->second);
  }
  require(text == bounds_text(ensemble),
          "{}: does not follow from {}: h3 fullmodel reference writes what does", path,
          ensemble_file(config, layout));
  bounds.config = config;
  bounds.layout = ensemble.layout;
  bounds.weights = ensemble.weights;
  bounds.seed = ensemble.seed;
  bounds.provider =
      fmt::format("diffusers {}, torch {}, {}", json.at("provider").value("diffusers", "?"),
                  json.at("provider").value("torch", "?"), json.at("provider").value("device", "CPU"));
  bounds.k_chained = json.at("k").at("chained").get<double>();
  bounds.k_isolated = json.at("k").at("isolated").get<double>();
  for (const auto& entry : json.at("tensors"))
    bounds.tensors.push_back(
        {pass_named(entry.at("pass").get<std::string>(), path), entry.at("name").get<std::string>(),
         dtype_named(entry.at("dtype").get<std::string>(), path), entry.at("chained").get<double>(),
         entry.at("isolated").get<double>(), entry.at("single").at("relative_l2").get<double>(),
         entry.at("single").at("max_abs").get<double>(), entry.at("norm").get<double>(),
         entry.value("xxh3_128", "")});
  return bounds;
}

}  // namespace h3
