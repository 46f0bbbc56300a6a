// Text from outside: what is shown of it, and that an error stays one line.
#include "model/text.h"

#include <gtest/gtest.h>

#include <ostream>

#include "model/error.h"

namespace h3 {
namespace {

struct TextRow {
  const char* name;
  std::string bytes, text;
};
void PrintTo(const TextRow& row, std::ostream* out) { *out << row.name; }
std::string text_name(const testing::TestParamInfo<TextRow>& info) { return info.param.name; }

struct Printable : testing::TestWithParam<TextRow> {};

TEST_P(Printable, shows_what_cannot_be_shown) {
  EXPECT_EQ(printable(GetParam().bytes), GetParam().text);
  EXPECT_EQ(printable(GetParam().text), GetParam().text) << "printable text stays as it is";
}

const TextRow kTexts[] = {
    {"plain", "limit 0.5, measured 2\n\t", "limit 0.5, measured 2\n\t"},
    {"umlaut_and_emoji", "\xC3\xA4 \xF0\x9F\x98\x80", "\xC3\xA4 \xF0\x9F\x98\x80"},
    {"escape", "\x1B[0m", "\\x1B[0m"},
    {"zero_byte", std::string("a\0b", 3), "a\\x00b"},
    {"carriage_return", "a\r\n", "a\\x0D\n"},
    {"delete_and_c1", "\x7F \xC2\x85", "\\x7F \\x85"},
    {"not_a_character", "\xEF\xBF\xBE\xEF\xBF\xBF", "\\uFFFE\\uFFFF"},
    {"stray_continuation", "a\x80z", "a\\x80z"},
    {"cut_off_sequence", "a\xE2\x82", "a\\xE2\\x82"},
    {"overlong_slash", "\xC0\xAF", "\\xC0\\xAF"},
    {"surrogate", "\xED\xA0\x80", "\\xED\\xA0\\x80"},
    {"beyond_unicode", "\xF4\x90\x80\x80", "\\xF4\\x90\\x80\\x80"},
};
INSTANTIATE_TEST_SUITE_P(host, Printable, testing::ValuesIn(kTexts), text_name);

struct ErrorMessage : testing::TestWithParam<TextRow> {};

TEST_P(ErrorMessage, stays_on_one_line) { EXPECT_EQ(std::string(Error(GetParam().bytes).what()), GetParam().text); }

const TextRow kMessages[] = {
    {"plain", "a.h5: cannot open", "a.h5: cannot open"},
    {"line_end_and_tab", "a\nfolder\t: cannot open", "a\\x0Afolder\\x09: cannot open"},
    {"escape", "\x1B[0m: not a layout", "\\x1B[0m: not a layout"},
};
INSTANTIATE_TEST_SUITE_P(host, ErrorMessage, testing::ValuesIn(kMessages), text_name);

}  // namespace
}  // namespace h3
