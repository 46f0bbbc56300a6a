// Detection floors: a fault just below is accepted and one just above is rejected; what a bound cannot see is
// said; and no recorded bound of block 0 accepts a tensor of zeros.
#include "harness/power/detection_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "fixtures/path.h"

namespace h3 {
namespace {

// Rows, heads and modalities of equal energy: the floor of the first is that of all.
Tensor checkered(float centre = 0) {
  Tensor golden(DType::fp64, {18, 64});
  for (std::int64_t i = 0; i < golden.elements(); ++i)
    golden.data<double>()[i] = centre + ((i / 64 + i) % 2 == 0 ? 1 : -1);
  return golden;
}

TensorParts parts() {
  TensorParts parts{.head_dim = 16};
  for (std::int64_t row = 0; row < 18; ++row) parts.row_modality.push_back(row % 3);
  return parts;
}

struct FloorRow {
  const char* fault;
  const char* limit;
  Bound bound;
};
void PrintTo(const FloorRow& row, std::ostream* out) { *out << row.fault << '_' << row.limit; }

struct Floors : testing::TestWithParam<FloorRow> {};

TEST_P(Floors, are_where_the_bound_turns) {
  const FloorRow& row = GetParam();
  const Tensor golden = checkered();
  const auto floors = detection_floors(row.bound, golden, parts());
  const auto floor = std::ranges::find(floors, row.fault, &DetectionFloor::fault);
  ASSERT_NE(floor, floors.end());
  const auto accepted = [&](double size) {
    return judge(row.bound, compare(golden, with_fault(golden, parts(), row.fault, size))).accepted;
  };
  EXPECT_TRUE(accepted(0.999 * floor->worst)) << floor->worst;
  EXPECT_FALSE(accepted(1.001 * floor->worst)) << floor->worst;
}

std::vector<FloorRow> floor_rows() {
  std::vector<FloorRow> rows;
  for (const char* fault :
       {"random", "scaling", "shift", "zeros", "rows_permuted", "one_row", "one_head", "one_modality"}) {
    rows.push_back({fault, "relative_l2", {.relative_l2 = 1e-2}});
    rows.push_back({fault, "max_abs", {.relative_l2 = 1e-1, .max_abs = 1e-2}});
  }
  return rows;
}
INSTANTIATE_TEST_SUITE_P(host, Floors, testing::ValuesIn(floor_rows()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

struct BlindRow {
  const char* name;
  Bound bound;
  float centre;
  std::vector<const char*> accepted;
};
void PrintTo(const BlindRow& row, std::ostream* out) { *out << row.name; }

struct BlindBounds : testing::TestWithParam<BlindRow> {};

TEST_P(BlindBounds, are_named) {
  const BlindRow& row = GetParam();
  const auto spots = blind_spots(
      {{"x", false, row.bound, false, detection_floors(row.bound, checkered(row.centre), parts())}});
  EXPECT_EQ(spots.size(), row.accepted.size());
  for (std::size_t i = 0; i < std::min(spots.size(), row.accepted.size()); ++i)
    EXPECT_NE(spots[i].find(row.accepted[i]), std::string::npos) << spots[i];
}
const BlindRow kBlind[] = {
    {"none", {.relative_l2 = 0.99}, 0, {}},
    {"a_tensor_of_zeros", {.relative_l2 = 1}, 0, {"random", "scaling", "shift", "zeros"}},
    {"a_permutation_of_rows_that_are_alike", {.relative_l2 = 0.5}, 50, {"rows_permuted"}},
};
INSTANTIATE_TEST_SUITE_P(host, BlindBounds, testing::ValuesIn(kBlind),
                         [](const auto& info) { return std::string(info.param.name); });

struct RecordedBounds : testing::TestWithParam<const char*> {};

TEST_P(RecordedBounds, reject_a_tensor_of_zeros) {
  const auto nodes = ProviderRecord::load(fixture_path("block0.h5"), GetParam());
  const auto gradients = ProviderGradients::load(fixture_path("block0_backward.h5"), GetParam());
  ASSERT_TRUE(nodes && gradients);
  for (const Node& node : transformer_block(Config{}, 0).nodes)
    EXPECT_LT(1.25 * nodes->node(node.name).relative_l2 + 1e-3, 0.05) << node.name;
  EXPECT_EQ(gradients->all().size(), 31u);
  for (const auto& [name, gradient] : gradients->all()) {
    EXPECT_LT(*gradient.bound().relative_l2, 0.05) << name;
    EXPECT_LT(*gradient.bound().max_abs, gradient.absmax) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(host, RecordedBounds, testing::Values("tiny", "small"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
