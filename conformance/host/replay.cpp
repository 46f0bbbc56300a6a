// The replay's own judgement: a planted fault is named by node, row, head and element, and the report says
// so.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "fixtures/path.h"
#include "harness/execution/row_subset.h"
#include "harness/replay/report.h"
#include "model/digest.h"
#include "model/json.h"

namespace h3 {
namespace {

constexpr std::int64_t kHeadDim = 128;

// A candidate that has the recorded rows right and holds NaN everywhere else.
Tensor with_recorded_rows(const ProviderNode& recorded, std::int64_t heads) {
  const std::int64_t rows = std::int64_t(recorded.row_digests.size());
  Tensor candidate(DType::bf16, {rows, heads, recorded.rows.cols() / heads});
  const std::size_t stride = std::size_t(recorded.rows.cols()) * sizeof(Bf16);
  for (std::size_t i = 0; i < recorded.sampled_rows.size(); ++i)
    std::memcpy(candidate.bytes() + std::size_t(recorded.sampled_rows[i]) * stride,
                recorded.rows.bytes() + i * stride, stride);
  return candidate;
}

struct RecordedNode {
  const char* layout;
  const char* node;
};
void PrintTo(const RecordedNode& row, std::ostream* out) { *out << row.layout << '_' << row.node; }

struct Judgement : testing::TestWithParam<RecordedNode> {};

TEST_P(Judgement, names_the_planted_element) {
  const auto record = ProviderRecord::load(fixture_path("block0.h5"), GetParam().layout);
  ASSERT_TRUE(record);
  const Node node = transformer_block(Config{}, 0).node(GetParam().node);
  const ProviderNode& recorded = record->node(node.name);
  Tensor candidate = with_recorded_rows(recorded, 56);
  const auto judge = [&] {
    return record->judge(node, candidate, sha256_hex(candidate.byte_span()), kHeadDim);
  };

  const ProviderVerdict unplanted = judge();
  EXPECT_FALSE(unplanted.equal) << "rows of NaN passed";
  EXPECT_EQ(unplanted.elements_differing, 0);
  EXPECT_EQ(unplanted.rows_differing,
            std::int64_t(recorded.row_digests.size() - recorded.sampled_rows.size()));

  const std::int64_t row = recorded.sampled_rows[1], element = 3 * kHeadDim + 17;
  Bf16& word = candidate.data<Bf16>()[row * recorded.rows.cols() + element];
  word = Bf16(std::uint16_t(word) ^ 1);
  const ProviderVerdict planted = judge();
  EXPECT_EQ(planted.elements_differing, 1);
  EXPECT_EQ(planted.rows_differing, unplanted.rows_differing + 1);
  ASSERT_TRUE(planted.first);
  EXPECT_EQ(planted.first->node, node.name);
  EXPECT_EQ(planted.first->row, row);
  EXPECT_EQ(planted.first->head, 3);
  EXPECT_EQ(planted.first->element, element);
}

TEST_P(Judgement, refuses_another_shape) {
  const auto record = ProviderRecord::load(fixture_path("block0.h5"), GetParam().layout);
  ASSERT_TRUE(record);
  const Node node = transformer_block(Config{}, 0).node(GetParam().node);
  EXPECT_THROW(record->judge(node, Tensor(DType::bf16, {2, 56, kHeadDim}), "", kHeadDim), Error);
}

TEST_P(Judgement, is_not_given_for_other_weights) {
  const auto record = ProviderRecord::load(fixture_path("block0.h5"), GetParam().layout);
  ASSERT_TRUE(record);
  EXPECT_NE(record->mismatch("synthetic, seed 1", {}), "");
  EXPECT_EQ(record->mismatch("synthetic, seed 420", {}), "");
  EXPECT_NE(record->mismatch("synthetic, seed 420", {{"temb_unknown", Tensor(DType::fp32, {1})},
                                                     {"token_tags", Tensor(DType::i64, {1})}}),
            "")
      << "an input with other bytes was taken for the recorded one";
}

constexpr RecordedNode kNodes[] = {{"tiny", "rope_q"}, {"small", "q_norm"}, {"medium", "rope_k"}};
INSTANTIATE_TEST_SUITE_P(host, Judgement, testing::ValuesIn(kNodes),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// ---- acceptance ----

// 7 of 10 elements correctly rounded by the provider, two rows of five; the worst of either is the last.
SampledUlp planted_ulp(std::uint64_t worst) {
  SampledUlp ulp{{2, 71}, 5, {}, {}};
  for (UlpHistogram* one : {&ulp.candidate, &ulp.provider}) {
    one->elements = 10;
    one->bins[0] = 7;
    one->bins[1] = 2;
    one->worst = one == &ulp.candidate ? worst : 3;
    one->bins[std::size_t(UlpHistogram::bin_of(one->worst))] += 1;
    one->worst_index = 9;
  }
  return ulp;
}

ReplayReport clean_report() {
  ReplayReport report;
  report.provider_recorded = true;
  for (const auto& node : transformer_block(Config{}, 0).nodes) {
    NodeResult result;
    result.node = node.name;
    result.row = node.row;
    result.shape = {264, node.cols};
    result.isolated = true;
    result.golden = GoldenError{3e-3, 0.1, 7, 5e-3, true};
    result.provider = ProviderVerdict{true, 0, 100, 0, {}};
    result.ulp = planted_ulp(3);
    report.nodes.push_back(result);
  }
  return report;
}

struct Spoiled {
  const char* name;
  std::function<void(ReplayReport&)> spoil;
};
void PrintTo(const Spoiled& row, std::ostream* out) { *out << row.name; }

struct Acceptance : testing::TestWithParam<Spoiled> {};

TEST_P(Acceptance, is_refused) {
  ReplayReport report = clean_report();
  ASSERT_TRUE(report.accepted());
  GetParam().spoil(report);
  EXPECT_FALSE(report.accepted());
  EXPECT_EQ(to_json(report).at("accepted"), false);
  EXPECT_NE(to_table(report, false).find("NOT accepted"), std::string::npos);
}

const Drift kDrift = {"rope_q", 3, 1, 130, "planted"};
const Spoiled kSpoiled[] = {
    {"a_node_left_the_provider",
     [](ReplayReport& r) {
       r.nodes[7].provider = ProviderVerdict{false, 1, 100, 1, kDrift};
     }},
    {"a_binding_is_a_stand_in", [](ReplayReport& r) { r.nodes[9].binding = Binding::interim; }},
    {"a_golden_bound_is_exceeded", [](ReplayReport& r) { r.nodes[4].golden->accepted = false; }},
    {"a_second_run_differs", [](ReplayReport& r) { r.nodes[2].repeat_drift = kDrift; }},
    {"a_row_depends_on_its_batch", [](ReplayReport& r) { r.nodes[16].batch_drift = kDrift; }},
    {"a_permutation_changed_rows", [](ReplayReport& r) { r.permuted_rows_changed = 1; }},
    {"a_boundary_differs",
     [](ReplayReport& r) {
       r.boundaries.push_back({"timestep_mlp", "", {3, 2688}, false});
     }},
    {"nothing_was_replayed", [](ReplayReport& r) { r.nodes.clear(); }},
};
INSTANTIATE_TEST_SUITE_P(host, Acceptance, testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- the report ----

struct ReplayJson : testing::TestWithParam<const char*> {};

void expect_required(const nlohmann::json& root, const nlohmann::json& part, const nlohmann::json& value,
                     const std::string& at) {
  if (value.is_null()) return;
  const nlohmann::json& schema =
      part.contains("$ref")
          ? root.at(nlohmann::json::json_pointer(part.at("$ref").get<std::string>().substr(1)))
          : part;
  if (schema.contains("required")) {
    for (const auto& key : schema.at("required"))
      EXPECT_TRUE(value.contains(key.get<std::string>())) << at << "." << key;
  }
  if (schema.contains("properties")) {
    for (const auto& [key, inner] : schema.at("properties").items())
      if (value.contains(key)) expect_required(root, inner, value.at(key), at + "." + key);
  }
  if (schema.contains("items") && value.is_array())
    for (const auto& item : value) expect_required(root, schema.at("items"), item, at + "[]");
}

TEST_P(ReplayJson, has_what_the_schema_requires) {
  const auto schema = read_json((data_root() / "harness/replay/report.schema.json").string());
  ReplayReport report = clean_report();
  report.boundaries.push_back({"rotary_cos", "00", {264, 96}, true});
  const nlohmann::json json = nlohmann::json::parse(to_json(report).dump());
  expect_required(schema, schema, json, "report");
  for (const auto& [key, value] : json.items()) EXPECT_TRUE(schema.at("properties").contains(key)) << key;
}

TEST_P(ReplayJson, has_the_histograms_of_both_sides) {
  ReplayReport report = clean_report();
  report.nodes[11].ulp = planted_ulp(9);
  report.nodes[12].ulp = {};
  const nlohmann::json nodes = nlohmann::json::parse(to_json(report).dump()).at("nodes");
  const nlohmann::json& ulp = nodes[11].at("ulp");
  EXPECT_EQ(ulp.at("rows"), 2);
  EXPECT_EQ(ulp.at("elements"), 10);
  EXPECT_EQ(ulp.at("candidate").at("histogram"), (nlohmann::json{{"0", 7}, {"1", 2}, {"9-16", 1}}));
  EXPECT_EQ(ulp.at("provider").at("histogram"), (nlohmann::json{{"0", 7}, {"1", 2}, {"3-4", 1}}));
  EXPECT_EQ(ulp.at("candidate").at("worst"), (nlohmann::json{{"ulp", 9}, {"row", 71}, {"element", 4}}));
  EXPECT_EQ(nodes[10].at("ulp").at("candidate"), nodes[10].at("ulp").at("provider"));
  EXPECT_TRUE(nodes[12].at("ulp").is_null());
  EXPECT_NE(to_table(report, false)
                .find("ulp to the golden:    as the provider's in 15 of 16, not in residual_attn: 70.00 % "
                      "correctly rounded (provider 70.00 %), worst 9 (3)"),
            std::string::npos);
  EXPECT_NE(to_table(clean_report(), false).find("as the provider's in 17 of 17\n"), std::string::npos);
}

TEST_P(ReplayJson, holds_no_bare_nan) {
  ReplayReport report = clean_report();
  report.nodes[0].golden->relative_l2 = std::numeric_limits<double>::quiet_NaN();
  report.nodes[1].golden->max_abs = std::numeric_limits<double>::infinity();
  const std::string text = to_json(report).dump();
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf\""), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(text).at("nodes")[0].at("golden").at("relative_l2").is_null());
}

INSTANTIATE_TEST_SUITE_P(host, ReplayJson, testing::Values("report"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
