// h3 gemm: what its table says of bytes and times, and that it refuses where there is no Hopper GPU.
#include "harness/replay/product_race.h"

#include <gtest/gtest.h>

#include <ostream>

#include "model/error.h"
#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif

namespace h3 {
namespace {

struct RaceRow {
  const char* name;
  std::int64_t differing;
  std::vector<double> ours, theirs;
  double ratio;
  const char* shown;  // in the table
};
void PrintTo(const RaceRow& row, std::ostream* out) { *out << row.name; }

struct ProductRaces : testing::TestWithParam<RaceRow> {};

TEST_P(ProductRaces, show_bytes_and_the_ratio_of_medians) {
  const RaceRow& row = GetParam();
  RaceReport report;
  report.products.push_back(
      {"q_proj", 10, 20, 30, {{"ours", 0, row.ours}, {"cuBLAS", row.differing, row.theirs}}});
  const ProductRace& race = report.products[0];
  EXPECT_DOUBLE_EQ(race.ratio(race.entries[0]), 1);
  EXPECT_DOUBLE_EQ(race.ratio(race.entries[1]), row.ratio);
  EXPECT_NE(to_table(report).find(row.shown), std::string::npos) << to_table(report);
  const auto json = to_json(report)["products"][0]["candidates"][1];
  EXPECT_EQ(json["equals_ours"], row.differing == 0);
  EXPECT_EQ(json["ratio"], row.ratio);
}

const RaceRow kRaces[] = {
    {"faster_and_equal", 0, {1, 2, 3}, {4, 9, 1}, 2, "2.000x  = ours"},
    {"slower", 0, {4, 4, 4}, {1, 1, 90}, 0.25, "0.250x  = ours"},
    {"other_bytes", 7, {2}, {2}, 1, "1.000x  7 of 200 elements differ"},
};
INSTANTIATE_TEST_SUITE_P(host, ProductRaces, testing::ValuesIn(kRaces),
                         [](const auto& info) { return info.param.name; });

struct RefusalRow {
  const char* name;
  RaceRequest request;
};
void PrintTo(const RefusalRow& row, std::ostream* out) { *out << row.name; }

struct ProductRaceRefusals : testing::TestWithParam<RefusalRow> {};

// Bad requests everywhere; a good one where no GPU can take it. One line each.
TEST_P(ProductRaceRefusals, are_one_line) {
  RaceRequest request = GetParam().request;
#ifdef H3_HAVE_CUDA
  if (request.rows > 0 && request.rounds > 0 && cuda::why_unavailable().empty()) request.rows = 0;
#endif
  try {
    race_products(request);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

constexpr RefusalRow kRefusals[] = {
    {"no_rows", {.rows = 0}},
    {"no_rounds", {.rounds = 0}},
    {"no_gpu", {}},
};
INSTANTIATE_TEST_SUITE_P(host, ProductRaceRefusals, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
