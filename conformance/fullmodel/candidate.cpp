// Somebody else's kernels in the whole model at reduced widths: the report names every node that is theirs,
// forward and backward, and a wrong one is found by the bytes of the CPU twin.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "conformance/block0/runs.h"
#include "conformance/candidates/example.h"
#include "conformance/fullmodel/reduced.h"
#include "harness/execution/execution_candidate.h"
#include "harness/full_model/report_full_model.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

Json nodes(const char* name, int forward, int backward) {
  return {{"node", name}, {"forward", forward}, {"backward", backward}};
}

const Json kGated = {nodes("transformer_blocks.*.residual_attn", 4, 4),
                     nodes("transformer_blocks.*.residual_mlp", 4, 4), nodes("norm_out_fp32", 1, 1)},
           kAndRefined = {nodes("token_refiner.refiner_blocks.*.residual_attn", 2, 0),
                          nodes("token_refiner.refiner_blocks.*.residual_mlp", 2, 0), kGated[0], kGated[1],
                          kGated[2]};

struct CandidateRow {
  const char *name, *engine, *library;
  const Json& candidates;
  std::string forward, backward;  // the first drifts' reasons; empty: none
};
void PrintTo(const CandidateRow& row, std::ostream* out) { *out << row.name; }

class CandidateModel : public testing::TestWithParam<CandidateRow> {
 protected:
  void SetUp() override { H3_NEEDS_ENGINE(GetParam().engine); }
};

TEST_P(CandidateModel, is_named_and_judged) {
  const auto& row = GetParam();
  const auto engine = candidate_execution(example_library(row.library), reduced_model().config);
  const FullModelReport report = reduced_model().examine(*engine);

  EXPECT_EQ(to_json(report)["candidates"], row.candidates);
  const std::string table = to_table(report, false);
  std::int64_t forward = 0, backward = 0;
  for (const Json& nodes : row.candidates) {
    const std::string line =
        fmt::format("\ncandidate             {}: {} forward, {} backward\n", nodes["node"].get<std::string>(),
                    nodes["forward"].get<int>(), nodes["backward"].get<int>());
    EXPECT_NE(table.find(line), std::string::npos) << line << table;
    forward += nodes["forward"].get<int>();
    backward += nodes["backward"].get<int>();
  }
  EXPECT_EQ(report.forward_bindings.candidate, forward);
  EXPECT_EQ(report.backward_bindings.candidate, backward);

  const auto reason = [&](Pass pass) {
    const TensorResult* drift = report.first_drift(pass);
    return drift ? drift->stage + ": " + drift->reason : "";
  };
  EXPECT_EQ(reason(Pass::forward), row.forward);
  EXPECT_EQ(reason(Pass::backward), row.backward);
  EXPECT_EQ(report.accepted(), row.forward.empty() && row.backward.empty());
  EXPECT_EQ(report.with(TwinBytes::differ) == 0, report.accepted());
}

const std::string kForwardFused =
                      "transformer_blocks.0: other bytes than the CPU twin, first of residual_attn",
                  kBackwardFused =
                      "transformer_blocks.3: other bytes than the CPU twin, first of residual_attn";

const CandidateRow kOnCpu[] = {
    {"reduced_cpu_right", "cpu", "example_candidate", kAndRefined, "", ""},
    {"reduced_cpu_fused", "cpu", "example_candidate_fused", kAndRefined, kForwardFused, kBackwardFused},
};
INSTANTIATE_TEST_SUITE_P(fullmodel, CandidateModel, testing::ValuesIn(kOnCpu), kRowName);

#ifdef H3_HAVE_CUDA
const CandidateRow kOnGpu[] = {
    {"reduced_cuda_right", "cuda", "example_cuda", kGated, "", ""},
    {"reduced_cuda_fused", "cuda", "example_cuda_fused", kGated, kForwardFused, kBackwardFused},
    {"reduced_cuda_ungated", "cuda", "example_cuda_ungated", kGated, "",
     "transformer_blocks.3: other bytes than the CPU twin, first of the backward of residual_mlp"},
};
INSTANTIATE_TEST_SUITE_P(fullmodel_cuda, CandidateModel, testing::ValuesIn(kOnGpu), kRowName);
#endif

}  // namespace
}  // namespace h3
