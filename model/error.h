// Errors that a person has to act on: one line, naming what, where and what was expected. What a message
// quotes from a file or a name stays on that line (model/text.h).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace h3 {

struct Error : std::runtime_error {
  explicit Error(const std::string& message);
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace h3
