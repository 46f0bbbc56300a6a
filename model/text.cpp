#include "model/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace h3 {
namespace {

// Length of the UTF-8 sequence at the front, 0 when there is none; the code point comes back in `point`.
std::size_t decode(std::string_view bytes, std::uint32_t& point) {
  const auto byte = [&](std::size_t i) { return std::uint8_t(bytes[i]); };
  const std::uint8_t lead = byte(0);
  const std::size_t length = lead < 0x80         ? 1
                             : lead >> 5 == 0x6  ? 2
                             : lead >> 4 == 0xE  ? 3
                             : lead >> 3 == 0x1E ? 4
                                                 : 0;
  if (length == 0 || bytes.size() < length) return 0;
  point = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0x2) return 0;
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < kSmallest[length] || point > 0x10FFFF || surrogate ? 0 : length;
}

// Everything that cannot be shown as text; of the control characters all but those in `kept`.
std::string shown(std::string_view bytes, std::string_view kept) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    std::uint32_t point = 0;
    const std::size_t length = decode(bytes.substr(i), point);
    if (length == 0) {
      text += fmt::format("\\x{:02X}", std::uint8_t(bytes[i]));
    } else if ((point < 0x20 && kept.find(char(point)) == kept.npos) || (point >= 0x7F && point < 0xA0)) {
      text += fmt::format("\\x{:02X}", point);
    } else if (point == 0xFFFE || point == 0xFFFF) {
      text += fmt::format("\\u{:04X}", point);
    } else {
      text += bytes.substr(i, length);
    }
    i += length ? length : 1;
  }
  return text;
}

}  // namespace

std::string printable(std::string_view bytes) { return shown(bytes, "\n\t"); }

std::string one_line(std::string_view bytes) { return shown(bytes, ""); }

}  // namespace h3
