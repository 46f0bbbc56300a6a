#include "harness/full_model/full_model_ensemble.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

double finite(const nlohmann::json& value, const std::string& what) {
  require(value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0,
          "{}: {}, expected a finite number", what, value.dump());
  return value.get<double>();
}

}  // namespace

const char* name_of(Measure measure) { return measure == Measure::chained ? "chained" : "isolated"; }

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

Pass pass_named(const std::string& name, const std::string& what) {
  require(name == "forward" || name == "backward", "{}: pass '{}', expected forward or backward", what, name);
  return name == "forward" ? Pass::forward : Pass::backward;
}

DType dtype_named(const std::string& name, const std::string& what) {
  require(name == "bf16" || name == "fp32", "{}: dtype '{}', expected bf16 or fp32", what, name);
  return name == "bf16" ? DType::bf16 : DType::fp32;
}

namespace {

Ensemble read_ensemble(const nlohmann::json& json, const std::string& what) {
  const auto field = [&](const nlohmann::json& from, const char* name) -> const nlohmann::json& {
    require(from.is_object() && from.contains(name), "{}: no '{}'", what, name);
    return from.at(name);
  };
  require(field(json, "schema") == "h3.full_model_ensemble.v3", "{}: schema {}, expected {}", what,
          json.at("schema").dump(), "h3.full_model_ensemble.v3");
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
                          finite(field(entry, "default_max_abs"), at),
                          {},
                          entry.value("xxh3_128", "")};
    for (const auto& member : ensemble.members) {
      const auto& errors = field(field(entry, "errors"), member.c_str());
      const auto read = [&](Measure measure) { return finite(field(errors, name_of(measure)), at); };
      tensor.errors.push_back({read(Measure::chained), read(Measure::isolated)});
    }
    ensemble.tensors.push_back(std::move(tensor));
  }
  require(!ensemble.tensors.empty(), "{}: no tensors", what);
  return ensemble;
}

}  // namespace

Ensemble ensemble_from_json(const nlohmann::json& json, const std::string& what) {
  return values_of(what, [&] { return read_ensemble(json, what); });
}

double largest_error(const EnsembleTensor& tensor, Measure measure, std::size_t without) {
  double most = 0;
  for (std::size_t m = 0; m < tensor.errors.size(); ++m)
    if (m != without) most = std::max(most, tensor.errors[m].of(measure));
  return most;
}

double rounding_floor(DType dtype) { return (dtype == DType::bf16 ? 0x1p-8 : 0x1p-24) / std::sqrt(3.0); }

EnsembleRule rule_of(const Ensemble& ensemble, Measure measure) {
  EnsembleRule rule;
  for (std::size_t m = 0; m < ensemble.members.size(); ++m) {
    double factor = 0;
    std::string decides;
    for (const auto& tensor : ensemble.tensors) {
      const double above = tensor.errors[m].of(measure) - rounding_floor(tensor.dtype),
                   others = largest_error(tensor, measure, m);
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

}  // namespace h3
