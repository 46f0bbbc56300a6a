// A claim about an error: it is raised, is one line, and names what a person needs to know.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "model/error.h"

namespace h3 {

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

template <class Action>
testing::AssertionResult fails_naming(Action action, std::initializer_list<std::string> parts) {
  const std::string message = error_of(action);
  if (message.empty()) return testing::AssertionFailure() << "no error";
  if (message.find('\n') != std::string::npos)
    return testing::AssertionFailure() << "more than one line: " << message;
  for (const auto& part : parts)
    if (message.find(part) == std::string::npos)
      return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << part << "\"";
  return testing::AssertionSuccess();
}

}  // namespace h3
