#include "model/config_json.h"

#include <fmt/format.h>

#include "model/error.h"

namespace h3 {
namespace {

nlohmann::ordered_json patch_size(const Config& c) { return {c.patch_t, c.patch_h, c.patch_w}; }

bool is_positive(const nlohmann::json& value, std::int64_t) {
  return integer_of<std::int64_t>(value).value_or(0) > 0;
}
bool is_positive(const nlohmann::json& value, double) { return value.is_number() && value.get<double>() > 0; }

}  // namespace

nlohmann::ordered_json config_to_json(const Config& config) {
  nlohmann::ordered_json json = {{"_class_name", kModelClass}};
  for_each_number(config, [&](const char* name, auto value) { json[name] = value; });
  json["patch_size"] = patch_size(config);
  return json;
}

Config config_from_json(const nlohmann::json& json, const std::string& what) {
  require(json.is_object(), "{}: not a JSON object", what);
  Config config;
  for_each_number(config, [&](const char* name, auto& field) {
    require(json.contains(name) && is_positive(json[name], field), "{}: '{}' is not a positive number", what,
            name);
    json[name].get_to(field);
  });
  const auto& patch = json.value("patch_size", nlohmann::json());
  bool valid = patch.is_array() && patch.size() == 3;
  for (std::size_t i = 0; valid && i < 3; ++i) valid = is_positive(patch[i], std::int64_t());
  require(valid, "{}: 'patch_size' is not a list of three positive integers", what);
  config.patch_t = patch[0], config.patch_h = patch[1], config.patch_w = patch[2];
  return config;
}

std::vector<std::string> config_differences(const nlohmann::json& json, const Config& expected) {
  if (!json.is_object()) return {"not a JSON object"};
  const nlohmann::json wanted = config_to_json(expected);
  std::vector<std::string> differences;
  for (const auto& [name, value] : wanted.items()) {
    if (!json.contains(name))
      differences.push_back(fmt::format("'{}' is missing, expected {}", name, value.dump()));
    else if (json[name] != value)
      differences.push_back(fmt::format("'{}' is {}, expected {}", name, json[name].dump(), value.dump()));
  }
  for (const auto& [name, value] : json.items())
    if (!name.starts_with('_') && !wanted.contains(name))
      differences.push_back(fmt::format("'{}' is not a field of {}", name, kModelClass));
  return differences;
}

}  // namespace h3
