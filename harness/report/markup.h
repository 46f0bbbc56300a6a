// HTML and SVG whose words cannot become markup: text and attribute values are escaped where they enter, and
// what comes out is well-formed XML, too.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace h3 {

struct Markup {
  std::string code;

  bool empty() const { return code.empty(); }
  Markup& operator<<(const Markup& more) {
    code += more.code;
    return *this;
  }
  friend Markup operator+(Markup a, const Markup& b) { return a << b; }
};

struct Attribute {
  const char* name;
  std::string value;

  Attribute(const char* name, std::string value) : name(name), value(std::move(value)) {}
  Attribute(const char* name, const char* value) : name(name), value(value) {}
  Attribute(const char* name, double coordinate);  // at most two decimals
  Attribute(const char* name, int count) : name(name), value(std::to_string(count)) {}
};
using Attributes = std::vector<Attribute>;

// The words as they are; bytes that no document may hold are made visible (harness/report/ledger.h,
// printable).
Markup words(std::string_view text);

// An attribute without a value is left out. Elements that HTML or SVG leave empty close themselves.
Markup element(const char* name, const Attributes& attributes, const Markup& inside = {});

inline const Markup& markup_of(const Markup& inside) { return inside; }
inline Markup markup_of(std::string_view text) { return words(text); }

template <class Inside>  // markup or words
Markup element(const char* name, const Attributes& attributes, const Inside& inside) {
  return element(name, attributes, markup_of(inside));
}
template <class Inside>
Markup element(const char* name, const Inside& inside) {
  return element(name, Attributes{}, markup_of(inside));
}

}  // namespace h3
