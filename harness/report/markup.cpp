#include "harness/report/markup.h"

#include <algorithm>
#include <array>

#include "model/text.h"

namespace h3 {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

bool closes_itself(std::string_view name) {
  constexpr std::array<std::string_view, 13> kNames = {"meta", "link",     "img",  "source", "input",
                                                       "br",   "hr",       "rect", "circle", "line",
                                                       "path", "polyline", "wbr"};
  return std::ranges::count(kNames, name) > 0;
}

}  // namespace

Attribute::Attribute(const char* name, double coordinate)
    : name(name), value(fmt::format("{:.2f}", coordinate)) {
  while (value.ends_with('0')) value.pop_back();
  if (value.ends_with('.')) value.pop_back();
  if (value == "-0") value = "0";
}

Markup words(std::string_view text) { return {escaped(text)}; }

Markup element(const char* name, const Attributes& attributes, const Markup& inside) {
  std::string code = fmt::format("<{}", name);
  for (const Attribute& one : attributes)
    if (!one.value.empty()) code += fmt::format(" {}=\"{}\"", one.name, escaped(one.value));
  if (closes_itself(name) && inside.empty()) return {code + "/>"};
  return {code + ">" + inside.code + fmt::format("</{}>", name)};
}

}  // namespace h3
