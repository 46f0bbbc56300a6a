// Somebody else's CUDA kernels in block 0, forward and backward, on a Hopper GPU: the residuals of
// conformance/candidates/example_cuda.cu on the strict kernels' tensors, right, wrong, and not launched.
#ifdef H3_HAVE_CUDA
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "conformance/block0/runs.h"
#include "conformance/candidates/example.h"
#include "conformance/errors.h"
#include "harness/replay/replay_backward.h"

namespace h3 {
namespace {

struct CandidateRow {
  const char *name, *library;
  std::string drift, by = {};  // empty: none
};
void PrintTo(const CandidateRow& row, std::ostream* out) { *out << "tiny_cuda_" << row.name; }

ReplayRequest request_of(const CandidateRow& row) {
  ReplayRequest request;
  request.engine = example_library(row.library);
  request.golden = false;
  return request;
}

Binding expected_binding(const std::string& node) {
  return node == "residual_attn" || node == "residual_mlp" ? Binding::candidate : Binding::row;
}

class CandidateOnGpu : public testing::TestWithParam<CandidateRow> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE("cuda"); }
};

// Every node has the provider's bytes, or the first that has not is named.
class CandidateBlock : public CandidateOnGpu {};

TEST_P(CandidateBlock, is_bound_and_judged) {
  ReplayRequest request = request_of(GetParam());
  request.repeat = request.permute_rows = true;
  const ReplayReport report = replay_block(request);
  ASSERT_TRUE(report.provider_recorded) << report.provider;
  ASSERT_EQ(report.nodes.size(), 17u);
  for (const NodeResult& node : report.nodes)
    EXPECT_EQ(node.binding, expected_binding(node.node)) << node.node;
  for (const auto& drift : {report.first_drift(), report.first_isolated_drift()})
    EXPECT_EQ(drift ? drift->node : "", GetParam().drift) << (drift ? drift->to_string() : "");
  EXPECT_EQ(report.accepted(), GetParam().drift.empty());
}

const CandidateRow kBlocks[] = {{"right", "example_cuda", ""},
                                {"fused", "example_cuda_fused", "residual_attn"}};
INSTANTIATE_TEST_SUITE_P(block0_cuda, CandidateBlock, testing::ValuesIn(kBlocks), kRowName);

// Every gradient has the bytes that engine cuda gives, or the first beyond its bound is named.
class CandidateBlockBackward : public CandidateOnGpu {};

TEST_P(CandidateBlockBackward, is_bound_and_judged) {
  ReplayRequest request = request_of(GetParam());
  request.golden = true;
  request.backward_passes = 2;
  const BackwardReport report = replay_backward(request);
  ASSERT_EQ(report.nodes.size(), 17u);
  for (const BackwardNode& node : report.nodes)
    EXPECT_EQ(node.binding, expected_binding(node.node)) << node.node;
  const auto drift = report.first_golden_drift();
  EXPECT_EQ(drift ? drift->node : "", GetParam().drift) << (drift ? drift->to_string() : "");
  EXPECT_NE((drift ? drift->detail : "").find(GetParam().by), std::string::npos);
  EXPECT_EQ(report.accepted(), GetParam().drift.empty());

  request.engine = "cuda";
  request.golden = request.batch_rows = false;
  request.backward_passes = 1;
  const BackwardReport strict = replay_backward(request);
  ASSERT_EQ(report.gradients.size(), strict.gradients.size());
  std::string first;
  for (const GradientResult& gradient : strict.gradients)
    if (first.empty() && report.gradient(gradient.value).sha256 != gradient.sha256) first = gradient.value;
  EXPECT_EQ(first, GetParam().drift);
}

const CandidateRow kBackwards[] = {{"right", "example_cuda", ""},
                                   {"ungated", "example_cuda_ungated", "ffn_down", "by residual_mlp"}};
INSTANTIATE_TEST_SUITE_P(block0_cuda, CandidateBlockBackward, testing::ValuesIn(kBackwards), kRowName);

class CandidateLaunch : public CandidateOnGpu {};

TEST_P(CandidateLaunch, is_refused_in_one_line) {
  const auto replay = [&] { replay_block(request_of(GetParam())); };
  EXPECT_TRUE(fails_naming(replay, {"candidate example in CUDA: residuals: node residual_attn: invalid"}));
}

INSTANTIATE_TEST_SUITE_P(block0_cuda, CandidateLaunch,
                         testing::Values(CandidateRow{"too_many_threads", "example_cuda_too_many_threads",
                                                      ""}),
                         kRowName);

}  // namespace
}  // namespace h3
#endif
