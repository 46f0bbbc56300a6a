// JSON from files that may lie: duplicate keys, deep nesting and broken text are refused, and a number that
// does not fit into the integer it is read as.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/error.h"

// The library itself cuts 1.9 to 1, and its cast of 3e29 has no defined result.
template <class Integer>
struct nlohmann::adl_serializer<
    Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>>> {
  template <class Json>
  static void to_json(Json& json, Integer value) {
    nlohmann::to_json(json, value);
  }
  template <class Json>
  static void from_json(const Json& json, Integer& value) {
    const auto take = [&](auto number) {
      value = Integer(number);
      return std::in_range<Integer>(number);
    };
    using Unsigned = typename Json::number_unsigned_t;
    using Signed = typename Json::number_integer_t;
    const bool fits = json.is_number_unsigned()  ? take(*json.template get_ptr<const Unsigned*>())
                      : json.is_number_integer() ? take(*json.template get_ptr<const Signed*>())
                                                 : false;
    if (fits) return;
    const std::string expected =
        "type must be an integer of " + std::to_string(8 * sizeof(Integer)) + " bits";
    throw nlohmann::detail::type_error::create(302, expected + ", but is " + json.type_name(), &json);
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
