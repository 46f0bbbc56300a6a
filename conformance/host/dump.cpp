// Dumps of other runtimes: an honest one has no drift, a planted fault is localised to its node in one
// command, with its class and a capsule; what is no dump of this block is refused in one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "conformance/host/planted_block.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/hdf5.h"
#include "harness/capsule/capsule.h"
#include "harness/capsule/dump_check.h"
#include "harness/compare/tensor_changes.h"
#include "harness/execution/backward_chain.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Answer {
  int exit_code;
  Json json;
  std::string output;
};

Answer dump_command(const Scratch& scratch, std::vector<std::string> arguments) {
  const fs::path h3 = fs::read_symlink("/proc/self/exe").parent_path() / "h3";
  arguments.insert(arguments.begin(), {h3, "dump", "check"});
  const auto end =
      gate::run_to_end({.arguments = arguments, .output_file = scratch.path("log"), .time_limit = 120});
  const std::string output = gate::read_file(scratch.path("log"));
  return {end.exit_code, Json::parse(output, nullptr, false), output};
}

using Metadata = std::map<std::string, std::string>;

Metadata honest_metadata() {
  const PlantedBlock block;
  return {
      {"layout", "tiny"}, {"layout_sha256", block.layout.sha256()}, {"weights", block.weights->identity()}};
}

void write(const std::string& file, const Values& values, const Metadata& metadata = honest_metadata()) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : values) specs.push_back({name, tensor.shape(), tensor.dtype()});
  write_safetensors(
      file, specs, [&](const TensorSpec& spec) { return values.at(spec.name); }, metadata);
}

// Forward and backward of block 0, narrow.
const Values& honest_values() {
  static const Values values = [] {
    const PlantedBlock block;
    const Execution& strict = *block.strict;
    Values all = block.run(strict);
    const Tensor given = stand_in_output_gradient(block.layout, block.config, kDefaultSeed);
    BackwardChain chain(strict, block.graph, all, given);
    all["gradient.residual_mlp"] = given;
    while (!chain.done())
      for (const auto& [value, gradient] : chain.step(load(chain.next().parameters, *block.weights)).complete)
        all[kGradientPrefix + value] = gradient;
    return all;
  }();
  return values;
}

// ---- honest ones

struct HonestRow {
  const char* name;
  void (*change)(Values& values);  // how another runtime hands on the same words
  bool gradients;
  const char* names;  // of a names file
};
void PrintTo(const HonestRow& row, std::ostream* out) { *out << row.name; }
std::string honest_name(const testing::TestParamInfo<HonestRow>& info) { return info.param.name; }

struct HonestDump : testing::TestWithParam<HonestRow> {};

TEST_P(HonestDump, has_no_drift_and_no_capsule) {
  const Scratch scratch;
  Values values = honest_values();
  if (!GetParam().gradients)
    std::erase_if(values, [](const auto& v) { return v.first.starts_with("gradient."); });
  GetParam().change(values);
  const std::string file = scratch.path("dump.safetensors"), names = scratch.path("names.json");
  write(file, values);
  std::vector<std::string> arguments = {file,    "--config", "reduced", "--capsule", scratch.path("capsules"),
                                        "--json"};
  if (*GetParam().names) {
    write_file(names, GetParam().names);
    arguments.insert(arguments.end(), {"--names", names});
  }
  const Answer answer = dump_command(scratch, arguments);
  EXPECT_EQ(answer.exit_code, 0) << answer.output;
  EXPECT_EQ(answer.json["accepted"], true);
  EXPECT_EQ(answer.json["gradients"].empty(), !GetParam().gradients);
  EXPECT_FALSE(fs::exists(scratch.path("capsules")));
}

const HonestRow kHonest[] = {
    {"forward", [](Values&) {}, false, ""},
    {"forward_and_backward", [](Values&) {}, true, ""},
    {"with_a_batch_of_one_and_flat_heads",
     [](Values& values) {
       for (const char* name : {"q_norm", "k_norm", "rope_q", "norm1"}) {
         Tensor& x = values.at(name);
         x = x.reshaped({1, x.shape()[0], x.elements() / x.shape()[0]});
       }
       Tensor& table = values.at("adaln_projection");
       table = table.reshaped({table.rows() / 3, 3 * table.cols()});
     },
     false, ""},
    {"under_other_names",
     [](Values& values) {
       values["blocks.0/attn/q"] = values.at("q_proj");
       values["something else"] = values.at("temb");
       values.erase("q_proj");
     },
     false, R"({"schema": "h3.dump_names.v1", "names": {"q_proj": "blocks.0/attn/q"}})"},
    {"fused_nodes_absent",
     [](Values& values) {
       for (const char* name : {"norm1", "q_norm", "k_norm", "swiglu", "gradient.q_norm"}) values.erase(name);
     },
     true,
     R"({"schema": "h3.dump_names.v1", "absent": ["norm1", "q_norm", "k_norm", "swiglu", "gradient.q_norm"]})"},
    {"inputs_absent",
     [](Values& values) {
       for (const char* name : {"hidden_states", "temb", "rotary_cos", "rotary_sin"}) values.erase(name);
     },
     false,
     R"({"schema": "h3.dump_names.v1", "absent": ["hidden_states", "temb", "rotary_cos", "rotary_sin"]})"},
};
INSTANTIATE_TEST_SUITE_P(host, HonestDump, testing::ValuesIn(kHonest), honest_name);

// ---- planted faults, forward: the runtime goes on from its own values

struct FaultRow {
  const char* control;
  bool inside_bounds;  // no bound sees it
};
void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.control; }
std::string fault_name(const testing::TestParamInfo<FaultRow>& info) {
  std::string name = info.param.control;
  std::ranges::replace(name, '.', '_');
  return name;
}

struct FaultyDump : testing::TestWithParam<FaultRow> {};

TEST_P(FaultyDump, is_localised_to_its_node_in_one_command) {
  const Control& control = control_named(GetParam().control);
  const PlantedBlock block;
  const FaultyExecution faulty(control);
  const Scratch scratch;
  const std::string file = scratch.path("dump.safetensors"), folder = scratch.path("capsules");
  write(file, block.run(faulty));
  const Answer answer = dump_command(scratch, {file, "--config", "reduced", "--capsule", folder, "--json"});
  EXPECT_EQ(answer.exit_code, 1) << answer.output;
  ASSERT_TRUE(answer.json.is_object()) << answer.output;
  const Json& drift = answer.json["drift"];
  EXPECT_EQ(drift["first_isolated_drift"]["strict"]["node"], faulty.node());
  EXPECT_EQ(drift["first_drift"]["strict"]["node"], faulty.node());
  EXPECT_EQ(drift["first_isolated_drift"]["calibrated"].is_null(), GetParam().inside_bounds);
  int drifting = 0;
  for (const Json& node : answer.json["nodes"]) {
    if (node["isolated"]["equal"] == true) continue;
    ++drifting;
    EXPECT_EQ(node["value"], faulty.node());
    EXPECT_EQ(node["isolated"]["class"], name_of(control.fault));
  }
  EXPECT_EQ(drifting, 1) << "the nodes behind it do no wrong";
  const CapsuleReplay replay = replay_capsule(read_capsule(answer.json["capsule"]));
  ASSERT_TRUE(replay.drift);
  EXPECT_EQ(replay.drift->node, faulty.node());
  EXPECT_EQ(replay.drift->row, drift["first_isolated_drift"]["strict"]["row"]);
  EXPECT_EQ(replay.drift->element, drift["first_isolated_drift"]["strict"]["element"]);
}

constexpr FaultRow kFaults[] = {
    {"modulation_chunks_permuted", false}, {"one_plus_scale_precision", true},
    {"qkv_rows_left_grouped", false},      {"A2", true},
    {"rope_pairing_interleaved", false},   {"A7", true},
    {"heads_flattened_transposed", false}, {"modulation_chunks_permuted.gates", false},
    {"swiglu_wrong_half", false},          {"splitk_bf16_partials", true},
};
INSTANTIATE_TEST_SUITE_P(host, FaultyDump, testing::ValuesIn(kFaults), fault_name);

// ---- and backward

struct GradientRow {
  const char* name;
  const char* value;
  Tensor (*change)(const Tensor& gradient);
  const char* fault;
};
void PrintTo(const GradientRow& row, std::ostream* out) { *out << row.name; }
std::string gradient_name(const testing::TestParamInfo<GradientRow>& info) { return info.param.name; }

struct FaultyGradient : testing::TestWithParam<GradientRow> {};

TEST_P(FaultyGradient, is_localised_to_its_value) {
  const GradientRow& row = GetParam();
  const Scratch scratch;
  Values values = honest_values();
  Tensor& gradient = values.at(std::string(kGradientPrefix) + row.value);
  gradient = row.change(gradient);
  write(scratch.path("dump.safetensors"), values);
  const DumpReport report = check_dump(
      {.dump = scratch.path("dump.safetensors"), .config = "reduced", .capsules = scratch.path("capsules")});
  EXPECT_FALSE(report.accepted());
  EXPECT_FALSE(report.first_drift(report.forward, false, Strictness::strict));
  const auto drift = report.first_drift(report.backward, true, Strictness::strict);
  ASSERT_TRUE(drift);
  EXPECT_EQ(drift->node, row.value);
  const auto found = std::ranges::find(report.backward, row.value, &DumpValue::value);
  EXPECT_EQ(found->isolated->fault, row.fault);
  const CapsuleReplay replay = replay_capsule(read_capsule(*report.capsule));
  ASSERT_TRUE(replay.drift);
  EXPECT_EQ(replay.drift->node, std::string(kGradientPrefix) + row.value);
}

Tensor one_word(const Tensor& gradient) {
  Tensor changed = gradient.clone();
  changed.bytes()[changed.size_bytes() / 4 * 2] ^= std::byte(1);
  return changed;
}

Tensor twice(const Tensor& gradient) {
  return spoil::values(gradient, [](float x) { return 2 * x; });
}

const GradientRow kGradients[] = {
    {"of_a_product", "swiglu", one_word, "rounding"},
    {"of_a_weight", "transformer_blocks.0.ff.net.0.proj.weight", spoil::halves_swapped, "layout"},
    {"of_keys", "rope_k", one_word, "rounding"},
    {"added_by_two_nodes", "residual_attn", one_word, "rounding"},
    {"added_by_three_nodes", "norm1", one_word, "rounding"},
    {"of_the_table", "adaln_projection", twice, "formula"},
    {"of_the_stream", "hidden_states", twice, "formula"},
};
INSTANTIATE_TEST_SUITE_P(host, FaultyGradient, testing::ValuesIn(kGradients), gradient_name);

// ---- bounds decide where they are asked to

struct CalibratedRow {
  const char* control;
  int exit_code;
};
void PrintTo(const CalibratedRow& row, std::ostream* out) { *out << row.control; }
std::string calibrated_name(const testing::TestParamInfo<CalibratedRow>& info) { return info.param.control; }

struct CalibratedDump : testing::TestWithParam<CalibratedRow> {};

TEST_P(CalibratedDump, is_judged_by_its_bounds) {
  const PlantedBlock block;
  const FaultyExecution faulty(control_named(GetParam().control));
  const Scratch scratch;
  write(scratch.path("dump.safetensors"), block.run(faulty));
  const Answer answer = dump_command(
      scratch, {scratch.path("dump.safetensors"), "--config", "reduced", "--calibrated", "--json"});
  EXPECT_EQ(answer.exit_code, GetParam().exit_code) << answer.output;
}

constexpr CalibratedRow kCalibrated[] = {{"A7", 0}, {"swiglu_wrong_half", 1}};
INSTANTIATE_TEST_SUITE_P(host, CalibratedDump, testing::ValuesIn(kCalibrated), calibrated_name);

// ---- HDF5, and another layout than the named one

struct DumpFile : testing::TestWithParam<const char*> {};

TEST_P(DumpFile, may_be_hdf5) {
  const Scratch scratch;
  Hdf5Writer file(scratch.path("dump.h5"), 1);
  for (const auto& [name, tensor] : honest_values())
    if (!name.starts_with("gradient.")) file.write(name, tensor);
  file.attribute("/", "layout", std::string_view(GetParam()));
  file.close();
  const DumpReport report =
      check_dump({.dump = scratch.path("dump.h5"), .config = "reduced", .golden = false});
  EXPECT_TRUE(report.accepted());
  EXPECT_EQ(report.request.layout, GetParam());
}
INSTANTIATE_TEST_SUITE_P(host, DumpFile, testing::Values("tiny"),
                         [](const auto& info) { return std::string(info.param); });

struct LayoutRow {
  const char* name;
  void (*change)(Values& values);
  const char* says;
};
void PrintTo(const LayoutRow& row, std::ostream* out) { *out << row.name; }
std::string layout_name(const testing::TestParamInfo<LayoutRow>& info) { return info.param.name; }

struct DumpLayout : testing::TestWithParam<LayoutRow> {};

TEST_P(DumpLayout, is_a_level_of_its_own) {
  const Scratch scratch;
  PlantedBlock block;
  GetParam().change(block.inputs);
  write(scratch.path("dump.safetensors"), block.run(*block.strict));
  const DumpReport report =
      check_dump({.dump = scratch.path("dump.safetensors"), .config = "reduced", .golden = false});
  EXPECT_EQ(report.layout_difference.value_or("").find(GetParam().says), 0u)
      << report.layout_difference.value_or("");
  EXPECT_EQ(report.accepted(), !report.layout_difference);
  EXPECT_FALSE(report.first_drift(report.forward, true, Strictness::strict)) << "the nodes do no wrong";
}

const LayoutRow kLayouts[] = {
    {"as_named", [](Values&) {}, ""},
    {"a_row_of_another_kind",
     [](Values& inputs) {
       Tensor indices = inputs.at("adaln_indices").clone();
       ++indices.data<std::int64_t>()[7];
       inputs["adaln_indices"] = indices;
     },
     "adaln_indices row 7"},
};
INSTANTIATE_TEST_SUITE_P(host, DumpLayout, testing::ValuesIn(kLayouts), layout_name);

// ---- refusals

struct RefusedRow {
  const char* name;
  void (*change)(Values& values, Metadata& metadata);
  const char* names;  // of a names file, or none
  std::vector<const char*> says;
};
void PrintTo(const RefusedRow& row, std::ostream* out) { *out << row.name; }
std::string refused_name(const testing::TestParamInfo<RefusedRow>& info) { return info.param.name; }

struct RefusedDump : testing::TestWithParam<RefusedRow> {};

TEST_P(RefusedDump, in_one_line) {
  const Scratch scratch;
  Values values = honest_values();
  Metadata metadata = honest_metadata();
  GetParam().change(values, metadata);
  write(scratch.path("dump.safetensors"), values, metadata);
  std::vector<std::string> arguments = {scratch.path("dump.safetensors"), "--config", "reduced",
                                        "--no-golden"};
  if (*GetParam().names) {
    write_file(scratch.path("names.json"), GetParam().names);
    arguments.insert(arguments.end(), {"--names", scratch.path("names.json")});
  }
  const Answer answer = dump_command(scratch, arguments);
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_EQ(std::ranges::count(answer.output, '\n'), 1) << answer.output;
  for (const char* text : GetParam().says)
    EXPECT_NE(answer.output.find(text), std::string::npos) << text << "\n" << answer.output;
}

const RefusedRow kRefused[] = {
    {"a_node_is_missing",
     [](Values& values, Metadata&) { values.erase("k_norm"); },
     "",
     {"no tensor 'k_norm'", "absent"}},
    {"a_gradient_is_missing",
     [](Values& values, Metadata&) { values.erase("gradient.k_norm"); },
     "",
     {"no tensor 'gradient.k_norm'"}},
    {"an_unknown_name",
     [](Values& values, Metadata&) { values["q_prjo"] = values.at("q_proj"); },
     "",
     {"'q_prjo' is no value of transformer_blocks.0"}},
    {"another_shape",
     [](Values& values, Metadata&) {
       values["attention"] = values.at("attention").row_range(0, 100).clone();
     },
     "",
     {"attention is 100x384, expected 264x384"}},
    {"heads_before_rows",
     [](Values& values, Metadata&) {
       Tensor& x = values.at("rope_q");
       x = x.reshaped({x.shape()[1], x.shape()[0], x.shape()[2]});
     },
     "",
     {"rope_q is 3x264x128, expected 264x3x128"}},
    {"another_type",
     [](Values& values, Metadata&) { values["o_proj"] = values.at("o_proj").to(DType::fp32); },
     "",
     {"o_proj is fp32, expected bf16"}},
    {"another_layout",
     [](Values&, Metadata& metadata) { metadata["layout_sha256"] = "00"; },
     "",
     {"captured on a layout 00, layout tiny is"}},
    {"an_unknown_layout",
     [](Values&, Metadata& metadata) { metadata["layout"] = "huge"; },
     "",
     {"layout 'huge'"}},
    {"other_weights",
     [](Values&, Metadata& metadata) { metadata["weights"] = "synthetic, seed 7"; },
     "",
     {"captured with weights synthetic, seed 7"}},
    {"names_of_no_value",
     [](Values&, Metadata&) {},
     R"({"schema": "h3.dump_names.v1", "names": {"query": "q_proj"}})",
     {"'query' is no value"}},
    {"names_of_no_tensor",
     [](Values&, Metadata&) {},
     R"({"schema": "h3.dump_names.v1", "names": {"q_proj": "q"}})",
     {"no tensor 'q'"}},
    {"absent_and_no_value",
     [](Values&, Metadata&) {},
     R"({"schema": "h3.dump_names.v1", "absent": ["query"]})",
     {"'query' is no value"}},
    {"names_whose_schema_is_a_number", [](Values&, Metadata&) {}, R"({"schema": 1})", {"no names of a dump"}},
    {"names_without_schema", [](Values&, Metadata&) {}, R"({"names": {}})", {"no names of a dump"}},
    {"names_with_another_field",
     [](Values&, Metadata&) {},
     R"({"schema": "h3.dump_names.v1", "missing": []})",
     {"'missing' is no field"}},
};
INSTANTIATE_TEST_SUITE_P(host, RefusedDump, testing::ValuesIn(kRefused), refused_name);

}  // namespace
}  // namespace h3
