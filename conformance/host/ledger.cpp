// The ledger: what a writer leaves behind, and what a reader makes of damage.
#include "harness/report/ledger.h"

#include <gtest/gtest.h>

#include <fstream>
#include <ostream>

#include "conformance/scratch.h"
#include "model/error.h"

namespace h3 {
namespace {

struct DamageRow {
  const char* name;
  void (*damage)(std::string& text);
  std::size_t events;  // that are still believed, of 4
  const char* defect;
  std::int64_t torn_bytes;
};
void PrintTo(const DamageRow& row, std::ostream* out) { *out << row.name; }
std::string damage_name(const testing::TestParamInfo<DamageRow>& info) { return info.param.name; }

struct DamagedLedger : testing::TestWithParam<DamageRow> {
  void SetUp() override {
    LedgerWriter ledger(path_);
    for (int i = 0; i < 4; ++i) ledger.append({{"event", "part"}, {"text", "number " + std::to_string(i)}});
  }

  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Scratch scratch_;
  const std::string path_ = scratch_.path("ledger.jsonl");
};

TEST_P(DamagedLedger, is_believed_up_to_the_damage) {
  std::string text = content();
  GetParam().damage(text);
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  const Ledger ledger = read_ledger(path_);
  EXPECT_EQ(ledger.events.size(), GetParam().events);
  EXPECT_EQ(ledger.defect, GetParam().defect);
  EXPECT_EQ(ledger.torn_bytes, GetParam().torn_bytes);
}

TEST_P(DamagedLedger, is_continued_only_when_its_chain_is_whole) {
  std::string text = content();
  GetParam().damage(text);
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  if (*GetParam().defect != '\0') {
    EXPECT_THROW(LedgerWriter::continue_at(path_), Error);
    return;
  }
  {
    LedgerWriter ledger = LedgerWriter::continue_at(path_);
    EXPECT_EQ(ledger.torn_bytes(), GetParam().torn_bytes);
    ledger.append({{"event", "process_end"}});
  }
  const Ledger continued = read_ledger(path_);
  EXPECT_EQ(continued.defect, "");
  EXPECT_EQ(continued.torn_bytes, 0);
  ASSERT_EQ(continued.events.size(), GetParam().events + 1);
  EXPECT_EQ(continued.events.back()["seq"], GetParam().events);
}

TEST_P(DamagedLedger, is_not_overwritten) { EXPECT_THROW(LedgerWriter writer(path_), Error); }

const DamageRow kDamages[] = {
    {"none", [](std::string&) {}, 4, "", 0},
    {"torn_last_line", [](std::string& t) { t += "{\"event\":"; }, 4, "", 9},
    {"changed_text", [](std::string& t) { t[t.find("number 1") + 7] = '7'; }, 2,
     "line 3: the hash of the line before it does not match", 0},
    {"lost_first_line", [](std::string& t) { t.erase(0, t.find('\n') + 1); }, 0, "line 1: expected seq 0", 0},
    {"empty_line", [](std::string& t) { t += "\n"; }, 4, "line 5: not JSON", 0},
    {"no_object", [](std::string& t) { t += "[]\n"; }, 4, "line 5: no event", 0},
};
INSTANTIATE_TEST_SUITE_P(host, DamagedLedger, testing::ValuesIn(kDamages), damage_name);

}  // namespace
}  // namespace h3
