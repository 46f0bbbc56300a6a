// Gate block0: what each bound would still accept, from the golden's own tensors at their real width. No
// fault of a whole tensor may be as large as the tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "harness/power/detection_floor.h"

namespace h3 {
namespace {

struct FloorRow {
  std::string value;
  bool backward;
};
void PrintTo(const FloorRow& row, std::ostream* out) {
  std::string name = row.value.substr(row.value.starts_with("transformer_blocks.0.") ? 21 : 0);
  std::ranges::replace(name, '.', '_');
  *out << "tiny_" << (row.backward ? "gradient_" : "") << name;
}

std::vector<FloorRow> floor_rows() {
  std::vector<FloorRow> rows;
  const Graph graph = transformer_block(Config{}, 0);
  for (const Node& node : graph.nodes) rows.push_back({node.name, false});
  for (const Node& node : graph.nodes) {
    if (node.name != graph.nodes.back().name) rows.push_back({node.name, true});
    for (const auto& parameter : node.parameters) rows.push_back({parameter, true});
  }
  rows.push_back({"hidden_states", true});
  rows.push_back({"temb", true});
  return rows;
}

struct DetectionFloors : testing::TestWithParam<FloorRow> {};

TEST_P(DetectionFloors, of_a_whole_tensor_are_below_it) {
  static const std::vector<TensorFloors> tensors = block_floors("tiny");
  const auto tensor = std::ranges::find_if(tensors, [](const TensorFloors& one) {
    return one.name == GetParam().value && one.backward == GetParam().backward;
  });
  ASSERT_NE(tensor, tensors.end());
  for (const DetectionFloor& floor : tensor->floors) {
    RecordProperty(floor.fault, fmt::format("{:.4e}", floor.worst));
    if (floor.parts == 1) {
      EXPECT_LT(floor.worst, 0.05) << floor.fault;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(block0, DetectionFloors, testing::ValuesIn(floor_rows()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
