// JSON from files that may lie: duplicate keys, deep nesting and broken text are refused, and a number that
// does not fit into the integer it is read as.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/error.h"

namespace h3 {

// The integer that is written there; nothing: there is none, or it does not fit.
template <class Integer, class Json>
std::optional<Integer> integer_of(const Json& json) {
  using Unsigned = typename Json::number_unsigned_t;
  using Signed = typename Json::number_integer_t;
  const auto fitting = [](auto number) {
    return std::in_range<Integer>(number) ? std::optional(Integer(number)) : std::nullopt;
  };
  if (json.is_number_unsigned()) return fitting(*json.template get_ptr<const Unsigned*>());
  if (json.is_number_integer()) return fitting(*json.template get_ptr<const Signed*>());
  return std::nullopt;
}

}  // namespace h3

// get<int>() and its kind: the library itself cuts 1.9 to 1, and its cast of 3e29 has no defined result.
template <class Integer>
struct nlohmann::adl_serializer<
    Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>>> {
  template <class Json>
  static void to_json(Json& json, Integer value) {
    nlohmann::to_json(json, value);
  }
  template <class Json>
  static void from_json(const Json& json, Integer& value) {
    const auto integer = h3::integer_of<Integer>(json);
    if (!integer)
      throw nlohmann::detail::type_error::create(
          302,
          fmt::format("type must be an integer of {} bits, but is {}", 8 * sizeof(Integer), json.type_name()),
          &json);
    value = *integer;
  }
};

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
