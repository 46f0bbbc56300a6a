// Numbers of JSON that are read as integers: what is none, or does not fit, is refused in one line.
#include "model/json.h"

#include <gtest/gtest.h>

#include <ostream>

#include "conformance/errors.h"

namespace h3 {
namespace {

struct JsonIntegerRow {
  const char *name, *text, *says;  // "": it is one
};
void PrintTo(const JsonIntegerRow& row, std::ostream* out) { *out << row.name; }

struct JsonInteger : testing::TestWithParam<JsonIntegerRow> {};

TEST_P(JsonInteger, is_itself_or_refused) {
  const auto json = parse_json(GetParam().text, "numbers");
  const auto read = [&] {
    values_of("numbers",
              [&] { return std::pair(json[0].get<std::int32_t>(), json[1].get<std::uint64_t>()); });
  };
  EXPECT_EQ(error_of(read), GetParam().says);
}

const JsonIntegerRow kJsonIntegers[] = {
    {"largest", "[2147483647, 18446744073709551615]", ""},
    {"smallest", "[-2147483648, 0]", ""},
    {"one_more", "[2147483648, 0]", "numbers: type must be an integer of 32 bits, but is number"},
    {"beyond_64_bits", "[0, 18446744073709551616]",
     "numbers: type must be an integer of 64 bits, but is number"},
    {"negative", "[0, -1]", "numbers: type must be an integer of 64 bits, but is number"},
    {"with_a_fraction", "[1.9, 0]", "numbers: type must be an integer of 32 bits, but is number"},
    {"huge", "[3e29, 0]", "numbers: type must be an integer of 32 bits, but is number"},
    {"truth", "[true, 0]", "numbers: type must be an integer of 32 bits, but is boolean"},
};
INSTANTIATE_TEST_SUITE_P(host, JsonInteger, testing::ValuesIn(kJsonIntegers),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
