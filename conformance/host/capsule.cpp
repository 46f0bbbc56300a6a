// Capsules: a planted fault is reduced to its node, row, head and columns, and what is left replays elsewhere
// to the same verdict; nothing larger than 1 MB, nothing damaged, nothing where nothing drifts.
#include "harness/capsule/capsule.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "conformance/errors.h"
#include "conformance/host/planted_block.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/hdf5.h"
#include "harness/compare/first_difference.h"
#include "harness/compare/tensor_changes.h"
#include "model/atomic_file.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const nlohmann::ordered_json kEnvironment = {{"candidate", "a planted fault"}};

struct Answer {
  int exit_code;
  Json json;
  std::string output;
};

// In a process of its own, in another folder.
Answer replayed(const Scratch& scratch, const std::string& file) {
  const fs::path h3 = fs::read_symlink("/proc/self/exe").parent_path() / "h3";
  const auto end = gate::run_to_end({.arguments = {h3, "capsule", "replay", file, "--json"},
                                     .working_directory = scratch.folder(),
                                     .output_file = scratch.path("log"),
                                     .time_limit = 60});
  const std::string output = gate::read_file(scratch.path("log"));
  return {end.exit_code, Json::parse(output, nullptr, false), output};
}

// ---- planted faults

struct PlantedRow {
  const char* control;
  const char* looks_like;  // how its words look; empty: like nothing that is known
};
void PrintTo(const PlantedRow& row, std::ostream* out) { *out << row.control; }
std::string planted_name(const testing::TestParamInfo<PlantedRow>& info) {
  std::string name = info.param.control;
  for (char& letter : name)
    if (letter == '.') letter = '_';
  return name;
}

struct PlantedCapsule : testing::TestWithParam<PlantedRow> {};

TEST_P(PlantedCapsule, replays_elsewhere_to_the_same_verdict) {
  const Control& control = control_named(GetParam().control);
  const FaultyExecution faulty(control);
  const PlantedBlock block;
  const NodeCall call = block.call(faulty.node(), block.run(*block.strict));
  const Tensor expected = run(call, *block.strict), found = run(call, faulty);
  const auto whole = first_difference(faulty.node(), expected, found, "");
  ASSERT_TRUE(whole);

  const Scratch here, elsewhere;
  const std::string file =
      write_capsule(here.folder(), capsule_of(block.graph.name, {call}, expected, found, kEnvironment));
  EXPECT_LE(fs::file_size(file), kCapsuleBytes);
  EXPECT_EQ(here.files(), std::vector<std::string>{"transformer_blocks.0." + faulty.node() + ".h5"});
  const std::string moved = elsewhere.path("moved.h5");
  fs::rename(file, moved);

  const Answer answer = replayed(elsewhere, moved);
  EXPECT_EQ(answer.exit_code, 1) << answer.output;
  ASSERT_TRUE(answer.json.is_object()) << answer.output;
  EXPECT_EQ(answer.json["expected_as_recorded"], true);
  EXPECT_EQ(answer.json["class"], name_of(control.fault));
  const Json& drift = answer.json["drift"];
  EXPECT_EQ(drift["node"], faulty.node());
  EXPECT_EQ(drift["row"], whole->row);
  EXPECT_EQ(drift["element"], whole->element);
  const std::string looks = answer.json["looks_like"].is_null() ? "" : answer.json["looks_like"]["way"];
  EXPECT_EQ(looks, GetParam().looks_like) << answer.json["looks_like"];
}

constexpr PlantedRow kPlanted[] = {
    {"A2", ""},
    {"A7", "keys in reverse order"},
    {"modulation_chunks_permuted", ""},
    {"modulation_chunks_permuted.gates", "the gate of the other half"},
    {"fused_norm_keeps_fp32", "every step wide, one rounding at the end"},
    {"one_plus_scale_precision", ""},
    {"qkv_rows_left_grouped", ""},
    {"swiglu_wrong_half", "the activation on the other half"},
    {"heads_flattened_transposed", ""},
    {"rope_pairing_interleaved", ""},
    {"padding_rows_attended", "keys of zeros up to a multiple of 64"},
    {"splitk_bf16_partials", "K in 2 pieces, BF16 partial sums"},
    {"index_overflow_32bit", "nothing written"},
};
INSTANTIATE_TEST_SUITE_P(host, PlantedCapsule, testing::ValuesIn(kPlanted), planted_name);

// ---- with the candidate at hand the sum is narrowed, too

struct NarrowedRow {
  const char* control;
  const char* step;  // what was found out by asking again
};
void PrintTo(const NarrowedRow& row, std::ostream* out) { *out << row.control; }
std::string narrowed_name(const testing::TestParamInfo<NarrowedRow>& info) { return info.param.control; }

struct NarrowedCapsule : testing::TestWithParam<NarrowedRow> {};

TEST_P(NarrowedCapsule, keeps_the_part_of_the_sum_that_shows_it) {
  const Control& control = control_named(GetParam().control);
  const FaultyExecution faulty(control);
  const PlantedBlock block;
  const NodeCall call = block.call(faulty.node(), block.run(*block.strict));
  const auto candidate = [&](const Config& config) {
    return std::make_unique<FaultyExecution>(control, config);
  };
  const Reduced made = reduced({call}, run(call, *block.strict), run(call, faulty), candidate);
  const std::string steps = fmt::format("{}", fmt::join(made.steps, "; "));
  EXPECT_NE(steps.find(GetParam().step), std::string::npos) << steps;
  EXPECT_TRUE(first_difference("words", made.expected, made.found, ""));
  EXPECT_FALSE(first_difference("found", run(made.calls, *candidate(made.calls[0].config)), made.found, ""));
  EXPECT_LT(made.calls[0].size_bytes(),
            reduced({call}, run(call, *block.strict), run(call, faulty)).calls[0].size_bytes());
}

constexpr NarrowedRow kNarrowed[] = {
    {"splitk_bf16_partials", "of 512 are enough"},
    {"A7", "of 264 are enough"},
};
INSTANTIATE_TEST_SUITE_P(host, NarrowedCapsule, testing::ValuesIn(kNarrowed), narrowed_name);

// ---- gradients

struct GradientRow {
  const char* name;
  const char *node, *of;
};
void PrintTo(const GradientRow& row, std::ostream* out) { *out << row.name; }
std::string gradient_name(const testing::TestParamInfo<GradientRow>& info) { return info.param.name; }

struct GradientCapsule : testing::TestWithParam<GradientRow> {};

TEST_P(GradientCapsule, replays_with_one_word_changed) {
  const PlantedBlock block;
  NodeCall call = block.call(GetParam().node, block.run(*block.strict));
  call.gradient_of = GetParam().of;
  if (!std::ranges::count(call.node.inputs, call.gradient_of))
    call.gradient_of = "transformer_blocks.0." + call.gradient_of;
  const Tensor output = block.strict->run(call.node, call.inputs, call.parameters);
  call.gradient = synthetic_activation(3, "gradient", output.shape(), DType::bf16);
  const Tensor expected = run(call, *block.strict);
  const std::int64_t cols = expected.shape().size() == 1 ? expected.elements()
                                                         : expected.elements() / expected.shape()[0],
                     place = expected.elements() / cols / 2 * cols + cols / 2;
  Tensor found = expected.clone();
  found.bytes()[std::size_t(place) * size_of(found.dtype())] ^= std::byte(1);

  const Scratch scratch;
  const Capsule capsule = read_capsule(
      write_capsule(scratch.folder(), capsule_of(block.graph.name, {call}, expected, found, kEnvironment)));
  const CapsuleReplay replay = replay_capsule(capsule);
  EXPECT_TRUE(replay.as_recorded);
  ASSERT_TRUE(replay.drift);
  EXPECT_EQ(replay.drift->node, "gradient." + call.gradient_of);
  EXPECT_EQ(replay.drift->row, place / cols);
  EXPECT_EQ(replay.drift->element, place % cols);
  EXPECT_FALSE(capsule.reduced.cut_short);
}

constexpr GradientRow kGradients[] = {
    {"product_input", "q_proj", "norm1"},
    {"product_weight", "ffn_down", "ff.net.2.weight"},
    {"adaln_input", "adaln_projection", "temb"},
    {"adaln_weight", "adaln_projection", "adaln_proj.linear.weight"},
    {"adaln_bias", "adaln_projection", "adaln_proj.linear.bias"},
    {"norm_input", "norm2", "residual_attn"},
    {"norm_weight", "norm2", "norm2.weight"},
    {"head_norm_input", "k_norm", "k_proj"},
    {"rope_input", "rope_q", "q_norm"},
    {"attention_queries", "attention", "rope_q"},
    {"attention_keys", "attention", "rope_k"},
    {"attention_values", "attention", "v_proj"},
    {"activation", "swiglu", "ffn_gate_up"},
    {"residual_stream", "residual_attn", "hidden_states"},
    {"residual_branch", "residual_mlp", "ffn_down"},
    {"residual_table", "residual_mlp", "adaln_projection"},
};
INSTANTIATE_TEST_SUITE_P(host, GradientCapsule, testing::ValuesIn(kGradients), gradient_name);

// ---- size

struct SizeRow {
  const char* name;
  std::int64_t keys;
  bool cut_short;
};
void PrintTo(const SizeRow& row, std::ostream* out) { *out << row.name; }
std::string size_name(const testing::TestParamInfo<SizeRow>& info) { return info.param.name; }

struct CapsuleSize : testing::TestWithParam<SizeRow> {};

TEST_P(CapsuleSize, stays_below_one_megabyte) {
  Config config;
  config.num_attention_heads = 2;
  const std::int64_t keys = GetParam().keys, width = config.inner_dim();
  const auto operand = [&](const char* name, std::int64_t rows) {
    return synthetic_activation(9, name, {rows, 2, config.attention_head_dim}, DType::bf16);
  };
  const NodeCall call = {config,
                         {"attention", "h3_full_attention", {"rope_q", "rope_k", "v_proj"}, {}, width, false},
                         {operand("q", 2), operand("k", keys), operand("v", keys)},
                         {}};
  const Tensor expected = run(call, *cpu_execution(config));
  Tensor found = expected.clone();
  found.bytes()[std::size_t(width + 200) * 2] ^= std::byte(1);  // row 1, head 1, channel 72

  const Scratch scratch;
  const std::string file =
      write_capsule(scratch.folder(), capsule_of("graph", {call}, expected, found, kEnvironment));
  EXPECT_LE(fs::file_size(file), kCapsuleBytes);
  const Capsule capsule = read_capsule(file);
  EXPECT_EQ(capsule.reduced.cut_short, GetParam().cut_short);
  const CapsuleReplay replay = replay_capsule(capsule);
  EXPECT_TRUE(replay.as_recorded);
  ASSERT_TRUE(replay.drift);
  EXPECT_EQ(replay.drift->row, 1);
  EXPECT_EQ(replay.drift->head, 1);
  if (!GetParam().cut_short) {
    EXPECT_EQ(replay.drift->element, 200);
  }
}

constexpr SizeRow kSizes[] = {
    {"small_as_it_is", 925, false}, {"medium_with_one_channel", 3160, false}, {"longer_says_so", 6000, true}};
INSTANTIATE_TEST_SUITE_P(host, CapsuleSize, testing::ValuesIn(kSizes), size_name);

// ---- refusals

struct DamageRow {
  const char* name;
  void (*damage)(const std::string& file);
  const char* says;
};
void PrintTo(const DamageRow& row, std::ostream* out) { *out << row.name; }
std::string damage_name(const testing::TestParamInfo<DamageRow>& info) { return info.param.name; }

Capsule small_capsule() {
  const NodeCall call = {
      Config(),
      {"residual_attn", "residual", {"hidden_states", "o_proj"}, {}, 8},
      {synthetic_activation(1, "x", {3, 8}, DType::bf16), synthetic_activation(1, "y", {3, 8}, DType::bf16)},
      {}};
  const Tensor expected = run(call, *cpu_execution());
  Tensor found = expected.clone();
  found.bytes()[30] ^= std::byte(1);
  return capsule_of("graph", {call}, expected, found, kEnvironment);
}

struct DamagedCapsule : testing::TestWithParam<DamageRow> {};

TEST_P(DamagedCapsule, is_refused_in_one_line) {
  const Scratch scratch;
  const std::string file = write_capsule(scratch.folder(), small_capsule());
  GetParam().damage(file);
  EXPECT_TRUE(fails_naming([&] { read_capsule(file); }, {file, GetParam().says}));
  EXPECT_EQ(replayed(scratch, file).exit_code, 2);
}

void rewrite(const std::string& file, void (*change)(std::string& bytes)) {
  std::string bytes = gate::read_file(file);
  change(bytes);
  write_file(file, bytes);
}

void with_description(const std::string& file, const std::string& text) {
  Hdf5Writer writer(file);
  writer.write_vector("description",
                      std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
                      {std::int64_t(text.size())});
  writer.close();
}

const DamageRow kDamages[] = {
    {"missing", [](const std::string& file) { fs::remove(file); }, "cannot read"},
    {"truncated",
     [](const std::string& file) {
       rewrite(file, [](std::string& bytes) { bytes.resize(bytes.size() / 2); });
     },
     ""},
    {"no_hdf5", [](const std::string& file) { write_file(file, "{}"); }, ""},
    {"another_hdf5_file",
     [](const std::string& file) {
       Hdf5Writer writer(file);
       writer.group("x");
       writer.close();
     },
     "no capsule"},
    {"another_schema", [](const std::string& file) { with_description(file, R"({"schema": "other"})"); },
     "no capsule"},
    {"description_cut", [](const std::string& file) { with_description(file, R"({"schema": "h3.cap)"); },
     "damaged"},
    {"field_missing",
     [](const std::string& file) { with_description(file, R"({"schema": "h3.capsule.v1"})"); }, "damaged"},
    {"operands_of_another_node",
     [](const std::string& file) {
       Capsule capsule = small_capsule();
       capsule.reduced.calls[0].node.inputs.push_back("adaln_projection");
       capsule.reduced.calls[0].inputs.push_back(capsule.reduced.expected);
       write_capsule(fs::path(file).parent_path(), capsule);
     },
     "no block has a node 'residual_attn' of these operands"},
    {"wider_than_its_words",
     [](const std::string& file) {
       Capsule capsule = small_capsule();
       capsule.reduced.calls[0].node.cols = std::int64_t(1) << 40;
       write_capsule(fs::path(file).parent_path(), capsule);
     },
     "wide, are not its"},
    {"too_large",
     [](const std::string& file) {
       rewrite(file, [](std::string& bytes) { bytes.resize(kCapsuleBytes + 1); });
     },
     "a capsule has at most"},
};
INSTANTIATE_TEST_SUITE_P(host, DamagedCapsule, testing::ValuesIn(kDamages), damage_name);

struct FlippedCapsule : testing::TestWithParam<int> {};

// A flipped byte is refused, or lies where nothing is read.
TEST_P(FlippedCapsule, is_refused_or_the_same) {
  const Scratch scratch;
  const std::string file = write_capsule(scratch.folder(), small_capsule()), whole = gate::read_file(file);
  const CapsuleReplay honest = replay_capsule(read_capsule(file));
  int refused = 0;
  const auto part = std::size_t(GetParam());
  for (std::size_t at = part; at < whole.size(); at += 64) {
    std::string bytes = whole;
    bytes[at] ^= 0x55;
    write_file(file, bytes);
    std::string error;
    try {
      const CapsuleReplay replay = replay_capsule(read_capsule(file));
      EXPECT_TRUE(replay.as_recorded) << "byte " << at;
      EXPECT_EQ(replay.drift->to_string(), honest.drift->to_string()) << "byte " << at;
    } catch (const Error& reason) {
      ++refused;
      EXPECT_EQ(std::string(reason.what()).find('\n'), std::string::npos) << reason.what();
    }
  }
  EXPECT_GT(refused, 0);
}
INSTANTIATE_TEST_SUITE_P(host, FlippedCapsule, testing::Values(3, 21, 46),
                         [](const auto& info) { return fmt::format("from_byte_{}", info.param); });

struct NoCapsule : testing::TestWithParam<const char*> {};

TEST_P(NoCapsule, is_made_of_equal_results) {
  const Capsule capsule = small_capsule();
  EXPECT_TRUE(fails_naming(
      [&] { reduced(capsule.reduced.calls, capsule.reduced.expected, capsule.reduced.expected); },
      {"equal"}));
}
INSTANTIATE_TEST_SUITE_P(host, NoCapsule, testing::Values("residual"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
