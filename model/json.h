// JSON from files that may lie: duplicate keys, deep nesting and broken text are refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/error.h"

namespace h3 {

// `what` names the text in errors, e.g. the file's path.
nlohmann::json parse_json(std::string_view text, const std::string& what);
nlohmann::json read_json(const std::string& path);

// What `read` returns; where it meets a value of another type than it takes, an Error that names the text.
template <class Read>
auto values_of(const std::string& what, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    const std::string_view text = error.what();  // "[json.exception.type_error.302] type must be ..."
    fail("{}: {}", what, text.substr(text.find(' ') + 1));
  }
}

}  // namespace h3
