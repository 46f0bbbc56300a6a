// Text from outside on its way to a terminal, an XML or a JSON file.
#pragma once

#include <string>
#include <string_view>

namespace h3 {

// Valid UTF-8 that XML 1.0 and JSON can hold and a terminal can show: control characters other than newline
// and tab, U+FFFE, U+FFFF and bytes that are no UTF-8 appear as the visible text \x1B, \uFFFF, \xFF.
std::string printable(std::string_view bytes);

// The same on one line: newline and tab, too, appear as \x0A and \x09.
std::string one_line(std::string_view bytes);

}  // namespace h3
