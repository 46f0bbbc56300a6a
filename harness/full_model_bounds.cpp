#include "harness/full_model_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "fixtures/manifest.h"
#include "fixtures/path.h"
#include "harness/full_model.h"
#include "model/checkpoint.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/layout.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSingleFactor = 1.5;  // of the rule with one provider

Pass pass_named(const std::string& name, const std::string& what) {
  require(name == "forward" || name == "backward", "{}: pass '{}', expected forward or backward", what, name);
  return name == "forward" ? Pass::forward : Pass::backward;
}

DType dtype_named(const std::string& name, const std::string& what) {
  require(name == "bf16" || name == "fp32", "{}: dtype '{}', expected bf16 or fp32", what, name);
  return name == "bf16" ? DType::bf16 : DType::fp32;
}

double finite(const nlohmann::json& value, const std::string& what) {
  require(value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0,
          "{}: {}, expected a finite number", what, value.dump());
  return value.get<double>();
}

double largest(const EnsembleTensor& tensor, std::size_t without) {
  double most = 0;
  for (std::size_t m = 0; m < tensor.errors.size(); ++m)
    if (m != without) most = std::max(most, tensor.errors[m].relative_l2);
  return most;
}

constexpr std::size_t kNobody = std::size_t(-1);

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot be read", path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

Ensemble ensemble_from_json(const nlohmann::json& json, const std::string& what) {
  const auto field = [&](const nlohmann::json& from, const char* name) -> const nlohmann::json& {
    require(from.is_object() && from.contains(name), "{}: no '{}'", what, name);
    return from.at(name);
  };
  require(field(json, "schema") == "h3.full_model_ensemble.v1", "{}: schema {}, expected {}", what,
          json.at("schema").dump(), "h3.full_model_ensemble.v1");
  Ensemble ensemble;
  ensemble.config = field(json, "config").get<std::string>();
  ensemble.layout = field(json, "layout").get<std::string>();
  ensemble.weights = field(json, "weights").get<std::string>();
  ensemble.seed = field(json, "seed").get<std::uint64_t>();
  ensemble.provenance = field(json, "provenance");
  ensemble.inputs = field(json, "inputs").get<std::map<std::string, std::string>>();
  ensemble.members = field(json, "members").get<std::vector<std::string>>();
  require(ensemble.members.size() >= 2, "{}: {} members, expected two or more", what,
          ensemble.members.size());
  for (const auto& entry : field(json, "tensors")) {
    const std::string name = field(entry, "name").get<std::string>(), at = what + ", " + name;
    EnsembleTensor tensor{pass_named(field(entry, "pass").get<std::string>(), at),
                          name,
                          dtype_named(field(entry, "dtype").get<std::string>(), at),
                          finite(field(entry, "norm"), at),
                          {}};
    for (const auto& member : ensemble.members) {
      const auto& error = field(field(entry, "errors"), member.c_str());
      tensor.errors.push_back({finite(field(error, "relative_l2"), at), finite(field(error, "max_abs"), at)});
    }
    ensemble.tensors.push_back(std::move(tensor));
  }
  require(!ensemble.tensors.empty(), "{}: no tensors", what);
  return ensemble;
}

double rounding_floor(DType dtype) { return (dtype == DType::bf16 ? 0x1p-8 : 0x1p-24) / std::sqrt(3.0); }

EnsembleRule rule_of(const Ensemble& ensemble) {
  EnsembleRule rule;
  for (std::size_t m = 0; m < ensemble.members.size(); ++m) {
    double factor = 0;
    std::string decides;
    for (const auto& tensor : ensemble.tensors) {
      const double above = tensor.errors[m].relative_l2 - rounding_floor(tensor.dtype),
                   others = largest(tensor, m);
      if (above <= 0) continue;
      require(others > 0, "ensemble {}: {} of {}: only member {} has an error", ensemble.config,
              name_of(tensor.pass), tensor.name, ensemble.members[m]);
      if (above / others <= factor) continue;
      factor = above / others;
      decides = fmt::format("{} {}", name_of(tensor.pass), tensor.name);
    }
    rule.held_out.push_back(factor);
    rule.tensor.push_back(decides);
  }
  rule.k = std::ceil(*std::ranges::max_element(rule.held_out) * 10) / 10;
  return rule;
}

const TensorBound& FullModelBounds::of(Pass pass, const std::string& name) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const TensorBound& bound) { return bound.pass == pass && bound.name == name; });
  require(found != tensors.end(), "bounds of {}: none for {} {}", config, name_of(pass), name);
  return *found;
}

std::string ensemble_file(const std::string& config) { return fmt::format("full_model_{}.json", config); }
std::string bounds_file(const std::string& config) {
  return fmt::format("full_model_{}_bounds.json", config);
}

Ensemble load_ensemble(const std::string& config) {
  const std::string name = ensemble_file(config), path = fixture_path(name).string();
  recorded_sha256(name);
  Ensemble ensemble = ensemble_from_json(read_json(path), path);
  require(ensemble.config == config, "{}: config '{}', expected '{}'", path, ensemble.config, config);
  return ensemble;
}

std::map<std::string, std::string> inventory_of(const Ensemble& ensemble) {
  const Config config = config_named(ensemble.config);
  const PackedLayout layout = named_layout(ensemble.layout);
  std::map<std::string, std::string> inventory = {
      {"ensemble", digest_file(fixture_path(ensemble_file(ensemble.config)).string()).sha256},
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
  const EnsembleRule rule = rule_of(ensemble);
  Json json = {
      {"schema", "h3.full_model_bounds.v1"},
      {"config", ensemble.config},
      {"layout", ensemble.layout},
      {"weights", ensemble.weights},
      {"seed", ensemble.seed},
      {"provider", ensemble.provenance},
      {"formula", "relative_l2 <= k * max over the members of their relative_l2 to float64 + floor"},
      {"k_is", "the smallest tenth at which every member, held out, passes against the others"},
      {"floor_is", "u / sqrt(3): one rounding to the tensor's own type, u = 2^-8 for bf16, 2^-24 for fp32"},
      {"single_is", "1.5 * the default member's error + floor: the rule with one provider, reported only"},
      {"k", rule.k},
      {"inventory", inventory_of(ensemble)},
  };
  for (std::size_t m = 0; m < ensemble.members.size(); ++m)
    json["members"].push_back({{"name", ensemble.members[m]},
                               {"factor_when_held_out", rule.held_out[m]},
                               {"decided_by", rule.tensor[m]}});
  for (const auto& tensor : ensemble.tensors) {
    const double floor = rounding_floor(tensor.dtype), limit = rule.k * largest(tensor, kNobody) + floor;
    require(limit < 1, "bounds of {}: {} {} may be {:.3f} from the golden: that accepts zeros",
            ensemble.config, name_of(tensor.pass), tensor.name, limit);
    json["tensors"].push_back({{"pass", name_of(tensor.pass)},
                               {"name", tensor.name},
                               {"dtype", name_of(tensor.dtype)},
                               {"relative_l2", limit},
                               {"single",
                                {{"relative_l2", kSingleFactor * tensor.errors[0].relative_l2 + floor},
                                 {"max_abs", kSingleFactor * tensor.errors[0].max_abs}}},
                               {"norm", tensor.norm}});
  }
  return json.dump(1) + "\n";
}

FullModelBounds load_bounds(const std::string& config) {
  const std::string name = bounds_file(config), path = fixture_path(name).string();
  FullModelBounds bounds;
  bounds.sha256 = recorded_sha256(name);
  const Ensemble ensemble = load_ensemble(config);
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
          ensemble_file(config));
  bounds.config = config;
  bounds.layout = ensemble.layout;
  bounds.weights = ensemble.weights;
  bounds.seed = ensemble.seed;
  bounds.provider =
      fmt::format("diffusers {}, torch {}, {}", json.at("provider").value("diffusers", "?"),
                  json.at("provider").value("torch", "?"), json.at("provider").value("device", "CPU"));
  bounds.k = json.at("k").get<double>();
  for (const auto& entry : json.at("tensors"))
    bounds.tensors.push_back(
        {pass_named(entry.at("pass").get<std::string>(), path), entry.at("name").get<std::string>(),
         dtype_named(entry.at("dtype").get<std::string>(), path), entry.at("relative_l2").get<double>(),
         entry.at("single").at("relative_l2").get<double>(), entry.at("single").at("max_abs").get<double>(),
         entry.at("norm").get<double>()});
  return bounds;
}

}  // namespace h3
