// JSON from files that may lie: duplicate keys, deep nesting and broken text are refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace h3 {

// `what` names the text in errors, e.g. the file's path.
nlohmann::json parse_json(std::string_view text, const std::string& what);
nlohmann::json read_json(const std::string& path);

}  // namespace h3
