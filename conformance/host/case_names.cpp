// Names of cases are filters, keys of the required lists and of years of reports: every case of the binary
// belongs to a gate, and no name is an index or changes from run to run.
#include <gtest/gtest.h>

#include <ostream>
#include <regex>
#include <string>

namespace h3 {
namespace {

struct RuleRow {
  const char* name;
  const char* pattern;  // of a whole name
  bool allowed;         // whether names must match, or must not
};
void PrintTo(const RuleRow& row, std::ostream* out) { *out << row.name; }
std::string rule_name(const testing::TestParamInfo<RuleRow>& info) { return info.param.name; }

struct CaseNames : testing::TestWithParam<RuleRow> {};

TEST_P(CaseNames, follow_the_rule) {
  const std::regex pattern(GetParam().pattern);
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  for (int i = 0; i < run.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *run.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();
      EXPECT_EQ(std::regex_match(name, pattern), GetParam().allowed) << name;
    }
  }
}

constexpr RuleRow kRules[] = {
    {"starts_with_its_gate", "(host|rows(_cuda|_cutlass)?|block0(_cuda)?|fullmodel(_cuda)?|parallel(_cuda|_nccl)?)/.*", true},
    {"is_gate_suite_claim_row", "[A-Za-z0-9_]+/[A-Za-z0-9_]+\\.[A-Za-z0-9_]+/[A-Za-z0-9_]+", true},
    {"row_is_no_index", ".*/[0-9]+", false},
    {"is_not_disabled", ".*DISABLED_.*", false},
    {"is_short_enough_for_every_reader", ".{1,250}", true},
};
INSTANTIATE_TEST_SUITE_P(host, CaseNames, testing::ValuesIn(kRules), rule_name);

}  // namespace
}  // namespace h3
