// The order of every sum, found from outside with huge terms that cancel, is the one that its row's header
// states.
#include "harness/power/summation_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "conformance/rows/on_cuda.h"

namespace h3 {
namespace {

struct SumRow {
  const char* engine;
  const char* node;
  const char* sum;
};
void PrintTo(const SumRow& row, std::ostream* out) {
  std::string name = fmt::format("{}_{}_{}", row.node, row.sum, row.engine);
  std::ranges::replace(name, ' ', '_');
  *out << name;
}

const std::vector<OrderCertificate>& certificates(const std::string& engine) {
  static std::map<std::string, std::vector<OrderCertificate>> found;
  if (!found.contains(engine)) found[engine] = order_certificates(*engine_named(engine, order_config()));
  return found[engine];
}

struct SummationOrder : testing::TestWithParam<SumRow> {};

const OrderCertificate& certificate_of(const std::string& engine, const SumRow& row) {
  for (const auto& one : certificates(engine))
    if (std::string(one.reduction.node) == row.node && std::string(one.reduction.sum) == row.sum) return one;
  fail("no certificate of {}, {}", row.node, row.sum);
}

TEST_P(SummationOrder, is_the_declared_one) {
  const OrderCertificate& found = certificate_of(GetParam().engine, GetParam());
  RecordProperty("order", found.found);
  RecordProperty("digest", found.digest);
  EXPECT_EQ(found.found, found.reduction.declared);
}

constexpr const char* kSums[][2] = {
    {"q_proj", "y over K"},
    {"q_proj", "dX over N"},
    {"q_proj", "dW over S"},
    {"attention", "o over keys"},
    {"attention", "dV over queries"},
    {"norm1", "dweight over S"},
    {"residual_mlp", "dgate over S"},
    {"adaln_projection", "dbias over U"},
    {"video_in_proj", "y over K"},
    {"video_in_proj", "dW over S"},
    {"video_in_proj", "dbias over S"},
    {"timestep_mlp", "temb over K"},
};

std::vector<SumRow> rows_of(const char* engine) {
  std::vector<SumRow> rows;
  for (const auto& [node, sum] : kSums) rows.push_back({engine, node, sum});
  return rows;
}

const auto kSumName = [](const auto& info) { return testing::PrintToString(info.param); };
INSTANTIATE_TEST_SUITE_P(rows, SummationOrder, testing::ValuesIn(rows_of("cpu")), kSumName);

#ifdef H3_HAVE_CUDA
struct SummationOrderOnCuda : SummationOrder {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(SummationOrderOnCuda, is_the_twins) {
  const OrderCertificate& found = certificate_of("cuda", GetParam());
  EXPECT_EQ(found.subtree, certificate_of("cpu", GetParam()).subtree) << found.found;
}
INSTANTIATE_TEST_SUITE_P(rows_cuda, SummationOrderOnCuda, testing::ValuesIn(rows_of("cuda")), kSumName);
#endif

}  // namespace
}  // namespace h3
