// Gate parallel, control A4: what the ranks declare to hold is checked before anything runs. What is not
// owned as the split says is rejected as non-comparable, in one line that names the item and the ranks.
#include "model/ownership.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "conformance/errors.h"
#include "conformance/parallel/runs.h"

namespace h3 {
namespace {

using Holdings = std::vector<Holding>;

Holdings holdings_of(const Ownership& ownership) {
  Holdings all;
  for (int rank = 0; rank < ownership.ranks(); ++rank) all.push_back(ownership.holding(rank));
  return all;
}

struct SpoiledRow {
  const char* name;
  std::function<void(Holdings&)> spoil;
  const char* says;
};
void PrintTo(const SpoiledRow& row, std::ostream* out) { *out << row.name; }

// 264 rows and 56 heads among three ranks: 88 rows each; heads 0..17, 18..36, 37..55.
struct SpoiledOwnership : testing::TestWithParam<SpoiledRow> {};

TEST_P(SpoiledOwnership, is_rejected_before_anything_runs) {
  const Ownership ownership(Config{}, 264, 3);
  Holdings declared = holdings_of(ownership);
  ASSERT_NO_THROW(ownership.require_comparable(declared));
  GetParam().spoil(declared);
  EXPECT_TRUE(fails_naming([&] { ownership.require_comparable(declared); },
                           {"not comparable with one rank: ", GetParam().says}));
}

const SpoiledRow kSpoiled[] = {
    {"row_lost", [](Holdings& all) { all[2].items["rows"].pop_back(); },
     "item 263 of rows has no owner, expected rank 2"},
    {"row_twice", [](Holdings& all) { all[0].items["rows"].push_back(88); },
     "item 88 of rows is owned twice, by rank 0 and rank 1"},
    {"row_beyond_the_sequence", [](Holdings& all) { all[2].items["rows"].push_back(264); },
     "rank 2 holds item 264 of rows, there are 264"},
    {"rows_in_another_order",
     [](Holdings& all) { std::swap(all[1].items["rows"][0], all[1].items["rows"][1]); },
     "rank 1 holds its rows in another order"},
    {"head_on_the_wrong_rank",
     [](Holdings& all) {
       all[0].items["heads"].pop_back();
       auto& heads = all[1].items["heads"];
       heads.insert(heads.begin(), 17);
     },
     "item 17 of heads is owned by rank 1, expected rank 0"},
    {"head_twice", [](Holdings& all) { all[2].items["heads"] = all[1].items["heads"]; },
     "item 18 of heads is owned twice, by rank 1 and rank 2"},
    {"channel_lost", [](Holdings& all) { all[1].items["ffn_channels"].pop_back(); },
     "of ffn_channels has no owner, expected rank 1"},
    {"metadata_not_with_its_row",
     [](Holdings& all) {
       auto &first = all[0].items["adaln_indices"], &second = all[1].items["adaln_indices"];
       second.insert(second.begin(), first.back());
       first.pop_back();
     },
     "adaln_indices of row 87 lies on rank 1, its row on rank 0: not co-sharded"},
    {"metadata_lost",
     [](Holdings& all) { all[1].items["rotary_cos"].erase(all[1].items["rotary_cos"].begin()); },
     "rotary_cos of row 88 has no owner"},
    {"kind_not_declared", [](Holdings& all) { all[1].items.erase("positions"); },
     "rank 1 declares no positions"},
    {"rank_missing", [](Holdings& all) { all.pop_back(); }, "2 ranks declare what they hold, expected 3"},
};
INSTANTIATE_TEST_SUITE_P(parallel, SpoiledOwnership, testing::ValuesIn(kSpoiled), kRowName);

struct SplitRow {
  std::int64_t rows;
  int ranks;
};
void PrintTo(const SplitRow& row, std::ostream* out) { *out << "rows" << row.rows << "_ranks" << row.ranks; }

struct Split : testing::TestWithParam<SplitRow> {};

// Every item once, and shares that differ by at most one.
TEST_P(Split, deals_out_every_item_once) {
  const auto [rows, ranks] = GetParam();
  const Ownership ownership(Config{}, rows, ranks);
  const Holdings all = holdings_of(ownership);
  EXPECT_NO_THROW(ownership.require_comparable(all));
  for (const auto& [kind, items] : all[0].items) {
    std::vector<std::int64_t> together;
    std::size_t least = items.size(), most = items.size();
    for (const Holding& holding : all) {
      const auto& own = holding.items.at(kind);
      together.insert(together.end(), own.begin(), own.end());
      least = std::min(least, own.size());
      most = std::max(most, own.size());
    }
    for (std::size_t i = 0; i < together.size(); ++i) ASSERT_EQ(together[i], std::int64_t(i)) << kind;
    EXPECT_LE(most - least, 1u) << kind;
  }
  EXPECT_EQ(holding_of_text(all.back().to_text(), ranks - 1).items, all.back().items);
}

INSTANTIATE_TEST_SUITE_P(parallel, Split,
                         testing::ValuesIn(std::vector<SplitRow>{
                             {264, 1}, {264, 7}, {925, 2}, {925, 8}, {3160, 3}, {38974, 7}, {38974, 56}}),
                         kRowName);

struct ImpossibleRow {
  const char* name;
  std::function<void()> action;
  const char* says;
};
void PrintTo(const ImpossibleRow& row, std::ostream* out) { *out << row.name; }

struct ImpossibleSplit : testing::TestWithParam<ImpossibleRow> {};

TEST_P(ImpossibleSplit, is_refused) { EXPECT_TRUE(fails_naming(GetParam().action, {GetParam().says})); }

const ImpossibleRow kImpossible[] = {
    {"no_ranks", [] { Ownership(Config{}, 264, 0); }, "ranks: 0, expected at least 1"},
    {"more_ranks_than_heads", [] { Ownership(Config{}, 264, 57); }, "57 ranks: there are 56 heads"},
    {"more_ranks_than_rows", [] { Ownership(Config{}, 3, 4); }, "4 ranks: there are 3 rows"},
    {"broken_declaration", [] { holding_of_text("{\"rows\": 3}", 2); }, "what rank 2 holds"},
};
INSTANTIATE_TEST_SUITE_P(parallel, ImpossibleSplit, testing::ValuesIn(kImpossible), kRowName);

}  // namespace
}  // namespace h3
