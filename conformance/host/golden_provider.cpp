// The goldens against the real diffusers modules in float64 (fixtures/small_block.h5): every node by itself,
// the block as a chain, and mistakes that the comparison must see.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "golden/adaln_projection.h"
#include "golden/adaln_row_gather.h"
#include "golden/final_adaln_out.h"
#include "golden/full_attention.h"
#include "golden/gate_residual.h"
#include "golden/linear.h"
#include "golden/mm_rope.h"
#include "golden/ode_step.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"
#include "golden/timestep_mlp.h"
#include "golden/timestep_sinusoid.h"

namespace h3 {
namespace {

constexpr double kEps = 1e-5;
constexpr double kLimit = 1e-6;        // FP32 borders on both sides, and their amplification by one node
constexpr double kMistakeSeen = 1e-3;  // a planted mistake stands out by three orders of magnitude

enum Part { shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp };

// The recorded block. Node outputs come from the record, or from `computed` where a chain has put its own.
struct SmallBlock {
  Hdf5Reader file{fixture_path("small_block.h5").string()};
  std::map<std::string, Tensor> computed;

  Tensor input(const std::string& name) const { return file.read("inputs/" + name); }
  Tensor parameter(const std::string& name) const { return file.read("parameters/" + name); }
  Tensor boundary(const std::string& name) const { return file.read("boundaries/" + name); }
  Tensor recorded(const std::string& name) const { return file.read("nodes/" + name); }
  Tensor node(const std::string& name) const {
    const auto found = computed.find(name);
    return found != computed.end() ? found->second : recorded(name);
  }
  Tensor heads(const std::string& name) const {
    const Tensor x = node(name);
    return x.reshaped({x.shape()[0], x.elements() / x.shape()[0] / 128, 128});
  }
  Tensor index() const {
    return golden::adaln_index(input("timestep_indices"), input("token_tags"), input("timesteps").elements());
  }
  golden::TablePart part(Part part) const { return {node("adaln_projection"), part}; }
  Tensor linear(const std::string& x, const std::string& weight) const {
    return golden::linear(node(x), parameter("block." + weight), nullptr);
  }
  Tensor rope(const std::string& x) const {
    return golden::mm_rope(heads(x), boundary("rotary_cos"), boundary("rotary_sin"));
  }
};

struct NodeRow {
  const char* name;
  std::function<Tensor(const SmallBlock&)> evaluate;
};
void PrintTo(const NodeRow& row, std::ostream* out) { *out << row.name; }

const NodeRow kNodes[] = {
    {"adaln_projection",
     [](const SmallBlock& b) {
       return golden::adaln_projection(b.boundary("timestep_mlp"),
                                       b.parameter("block.adaln_proj.linear.weight"),
                                       b.parameter("block.adaln_proj.linear.bias"));
     }},
    {"norm1",
     [](const SmallBlock& b) {
       return golden::modulated_rms_norm(b.input("hidden_states"), b.parameter("block.norm1.weight"), kEps,
                                         b.part(shift_msa), b.part(scale_msa), b.index());
     }},
    {"q_proj", [](const SmallBlock& b) { return b.linear("norm1", "attn.to_q.weight"); }},
    {"k_proj", [](const SmallBlock& b) { return b.linear("norm1", "attn.to_k.weight"); }},
    {"v_proj", [](const SmallBlock& b) { return b.linear("norm1", "attn.to_v.weight"); }},
    {"q_norm",
     [](const SmallBlock& b) {
       return golden::qk_norm(b.node("q_proj"), b.parameter("block.attn.norm_q.weight"), kEps);
     }},
    {"k_norm",
     [](const SmallBlock& b) {
       return golden::qk_norm(b.node("k_proj"), b.parameter("block.attn.norm_k.weight"), kEps);
     }},
    {"rope_q", [](const SmallBlock& b) { return b.rope("q_norm"); }},
    {"rope_k", [](const SmallBlock& b) { return b.rope("k_norm"); }},
    {"attention",
     [](const SmallBlock& b) {
       return golden::full_attention(b.heads("rope_q"), b.heads("rope_k"), b.heads("v_proj"));
     }},
    {"o_proj", [](const SmallBlock& b) { return b.linear("attention", "attn.to_out.0.weight"); }},
    {"residual_attn",
     [](const SmallBlock& b) {
       return golden::gate_residual(b.input("hidden_states"), b.node("o_proj"), b.part(gate_msa), b.index());
     }},
    {"norm2",
     [](const SmallBlock& b) {
       return golden::modulated_rms_norm(b.node("residual_attn"), b.parameter("block.norm2.weight"), kEps,
                                         b.part(shift_mlp), b.part(scale_mlp), b.index());
     }},
    {"ffn_gate_up", [](const SmallBlock& b) { return b.linear("norm2", "ff.net.0.proj.weight"); }},
    {"swiglu", [](const SmallBlock& b) { return golden::swiglu(b.node("ffn_gate_up")); }},
    {"ffn_down", [](const SmallBlock& b) { return b.linear("swiglu", "ff.net.2.weight"); }},
    {"residual_mlp",
     [](const SmallBlock& b) {
       return golden::gate_residual(b.node("residual_attn"), b.node("ffn_down"), b.part(gate_mlp), b.index());
     }},
};

struct Golden : testing::TestWithParam<NodeRow> {};

TEST_P(Golden, matches_provider_fp64) {
  const SmallBlock block;
  const double error = relative_error(GetParam().evaluate(block), block.recorded(GetParam().name));
  RecordProperty("measured", fmt::format("{:.2e}", error));
  EXPECT_LE(error, kLimit);
}

// Up to and including this node every input is the goldens' own.
TEST_P(Golden, chain_matches_provider_fp64) {
  SmallBlock block;
  for (const auto& node : kNodes) {
    block.computed[node.name] = node.evaluate(block);
    if (std::string_view(node.name) == GetParam().name) break;
  }
  EXPECT_LE(relative_error(block.node(GetParam().name), block.recorded(GetParam().name)), kLimit);
}

INSTANTIATE_TEST_SUITE_P(host, Golden, testing::ValuesIn(kNodes),
                         [](const auto& info) { return std::string(info.param.name); });

// The boundaries around the blocks; rotary tables and sinusoid are the provider's FP32, the others its
// float64.
struct BoundaryRow {
  const char* name;
  double limit;
  std::function<Tensor(const SmallBlock&)> evaluate;
};
void PrintTo(const BoundaryRow& row, std::ostream* out) { *out << row.name; }

golden::RotaryTables rotary(const SmallBlock& b) {
  return golden::rotary_tables(b.input("positions"), golden::rotary_frequencies());
}

const BoundaryRow kBoundaries[] = {
    {"timestep_sinusoid", 5e-7,
     [](const SmallBlock& b) { return golden::timestep_sinusoid(b.input("timesteps")); }},
    {"timestep_mlp", kLimit,
     [](const SmallBlock& b) {
       return golden::timestep_mlp(
           b.boundary("timestep_sinusoid"), b.parameter("time_embedder.linear_1.weight"),
           b.parameter("time_embedder.linear_1.bias"), b.parameter("time_embedder.linear_2.weight"),
           b.parameter("time_embedder.linear_2.bias"));
     }},
    {"rotary_frequencies", 0, [](const SmallBlock&) { return golden::rotary_frequencies(); }},
    {"rotary_cos", 0x1p-23, [](const SmallBlock& b) { return rotary(b).cos; }},
    {"rotary_sin", 0x1p-23, [](const SmallBlock& b) { return rotary(b).sin; }},
    {"norm_out", kLimit,
     [](const SmallBlock& b) {
       const Tensor table =
           golden::final_adaln_table(b.boundary("timestep_mlp"), b.parameter("norm_out.linear.weight"),
                                     b.parameter("norm_out.linear.bias"));
       return golden::final_adaln_out(b.recorded("residual_mlp"), b.parameter("norm_out.norm.weight"), kEps,
                                      table, b.input("timestep_indices"));
     }},
};

struct GoldenBoundary : testing::TestWithParam<BoundaryRow> {};

TEST_P(GoldenBoundary, matches_provider) {
  const SmallBlock block;
  const double error = relative_error(GetParam().evaluate(block), block.boundary(GetParam().name));
  RecordProperty("measured", fmt::format("{:.2e}", error));
  EXPECT_LE(error, GetParam().limit);
}

INSTANTIATE_TEST_SUITE_P(host, GoldenBoundary, testing::ValuesIn(kBoundaries),
                         [](const auto& info) { return std::string(info.param.name); });

// Eight steps of the provider's scheduler, each from the provider's own sample.
struct GoldenEuler : testing::TestWithParam<int> {};

TEST_P(GoldenEuler, matches_provider) {
  const SmallBlock block;
  const std::int64_t i = GetParam();
  const auto read = [&](const char* name) { return block.file.read(std::string("euler_update/") + name); };
  const Tensor sigmas = read("sigmas"), samples = read("samples");
  const Tensor start = i ? samples.row_range(i - 1, 1) : read("sample");
  const Tensor y =
      golden::ode_step(start.reshaped({5, 24}), read("velocities").row_range(i, 1).reshaped({5, 24}),
                       read("timesteps").at(i), sigmas.at(i), sigmas.at(i + 1));
  EXPECT_LE(relative_error(y, samples.row_range(i, 1)), 3e-7);
}

INSTANTIATE_TEST_SUITE_P(host, GoldenEuler, testing::Range(0, 8),
                         [](const auto& info) { return "step" + std::to_string(info.param); });

// What a comparison with the record must notice.
struct MistakeRow {
  const char* name;
  const char* node;
  std::function<Tensor(const SmallBlock&)> evaluate;
};
void PrintTo(const MistakeRow& row, std::ostream* out) { *out << row.name; }

Tensor columns_moved(const Tensor& x, const std::function<std::int64_t(std::int64_t)>& from) {
  return tensor_of(x.shape(),
                   [&](std::int64_t i) { return x.at(i / x.cols() * x.cols() + from(i % x.cols())); });
}

Tensor scaled(const Tensor& x, double factor) {
  return tensor_of(x.shape(), [&](std::int64_t i) { return factor * x.at(i); });
}

Tensor index_with(const SmallBlock& b, std::int64_t per_step, std::int64_t per_tag) {
  Tensor index = b.index();
  const Tensor step = b.input("timestep_indices"), tag = b.input("token_tags");
  for (std::int64_t s = 0; s < index.elements(); ++s)
    index.data<std::int64_t>()[s] =
        step.data<std::int64_t>()[s] * per_step + tag.data<std::int64_t>()[s] * per_tag;
  return index;
}

Tensor norm1_with(const SmallBlock& b, Part shift, Part scale, const Tensor& index, double eps = kEps) {
  return golden::modulated_rms_norm(b.input("hidden_states"), b.parameter("block.norm1.weight"), eps,
                                    b.part(shift), b.part(scale), index);
}

const MistakeRow kMistakes[] = {
    {"tag_is_the_inner_split", "adaln_projection",
     [](const SmallBlock& b) {
       const Tensor table = b.recorded("adaln_projection");
       return columns_moved(table.reshaped({3, 3 * table.cols()}),
                            [&](std::int64_t c) { return c % 3 * table.cols() + c / 3; })
           .reshaped(table.shape());
     }},
    {"silu_forgotten", "adaln_projection",
     [](const SmallBlock& b) {
       const Tensor bias = b.parameter("block.adaln_proj.linear.bias");
       return golden::linear(b.boundary("timestep_mlp"), b.parameter("block.adaln_proj.linear.weight"),
                             &bias);
     }},
    {"tag_times_timesteps", "norm1",
     [](const SmallBlock& b) { return norm1_with(b, shift_msa, scale_msa, index_with(b, 1, 3)); }},
    {"tag_forgotten", "norm1",
     [](const SmallBlock& b) { return norm1_with(b, shift_msa, scale_msa, index_with(b, 3, 0)); }},
    {"shift_and_scale_swapped", "norm1",
     [](const SmallBlock& b) { return norm1_with(b, scale_msa, shift_msa, b.index()); }},
    {"modulation_of_the_other_half", "norm1",
     [](const SmallBlock& b) { return norm1_with(b, shift_mlp, scale_mlp, b.index()); }},
    {"eps_a_hundred_times_larger", "norm1",
     [](const SmallBlock& b) { return norm1_with(b, shift_msa, scale_msa, b.index(), 1e-2); }},
    {"norm_over_all_heads", "q_norm",
     [](const SmallBlock& b) {
       const Tensor w = b.parameter("block.attn.norm_q.weight");
       const Tensor twice = tensor_of({256}, [&](std::int64_t i) { return w.at(i % 128); });
       return golden::rms_norm(b.node("q_proj"), twice, kEps);
     }},
    {"weight_of_the_keys", "q_norm",
     [](const SmallBlock& b) {
       return golden::qk_norm(b.node("q_proj"), b.parameter("block.attn.norm_k.weight"), kEps);
     }},
    {"turned_backwards", "rope_q",
     [](const SmallBlock& b) {
       return golden::mm_rope(b.heads("q_norm"), b.boundary("rotary_cos"),
                              scaled(b.boundary("rotary_sin"), -1));
     }},
    {"time_and_height_swapped", "rope_q",
     [](const SmallBlock& b) {
       const auto swap = [](std::int64_t c) { return c % 48 < 32 ? c / 48 * 48 + (c % 48 + 16) % 32 : c; };
       return golden::mm_rope(b.heads("q_norm"), columns_moved(b.boundary("rotary_cos"), swap),
                              columns_moved(b.boundary("rotary_sin"), swap));
     }},
    {"partner_64_apart", "rope_q",
     [](const SmallBlock& b) {
       const auto wide = [](const Tensor& table, float rest) {
         return tensor_of({table.rows(), 128}, [&](std::int64_t i) {
           return i % 64 < 48 ? table.at(i / 128 * 96 + i % 64) : rest;
         });
       };
       return golden::mm_rope(b.heads("q_norm"), wide(b.boundary("rotary_cos"), 1),
                              wide(b.boundary("rotary_sin"), 0));
     }},
    {"logits_not_scaled", "attention",
     [](const SmallBlock& b) {
       return golden::full_attention(scaled(b.heads("rope_q"), std::sqrt(128.0)), b.heads("rope_k"),
                                     b.heads("v_proj"));
     }},
    {"last_key_missing", "attention",
     [](const SmallBlock& b) {
       return golden::full_attention(b.heads("rope_q"), b.heads("rope_k").row_range(0, 36),
                                     b.heads("v_proj").row_range(0, 36));
     }},
    {"keys_not_turned", "attention",
     [](const SmallBlock& b) {
       return golden::full_attention(b.heads("rope_q"), b.heads("k_norm"), b.heads("v_proj"));
     }},
    {"heads_swapped", "o_proj",
     [](const SmallBlock& b) {
       const Tensor swapped =
           columns_moved(b.node("attention"), [](std::int64_t c) { return (c + 128) % 256; });
       return golden::linear(swapped, b.parameter("block.attn.to_out.0.weight"), nullptr);
     }},
    {"gate_of_the_other_half", "residual_attn",
     [](const SmallBlock& b) {
       return golden::gate_residual(b.input("hidden_states"), b.node("o_proj"), b.part(gate_mlp), b.index());
     }},
    {"residual_of_the_normed_input", "residual_attn",
     [](const SmallBlock& b) {
       return golden::gate_residual(b.node("norm1"), b.node("o_proj"), b.part(gate_msa), b.index());
     }},
    {"no_gate", "residual_mlp",
     [](const SmallBlock& b) { return golden::residual(b.node("residual_attn"), b.node("ffn_down")); }},
    {"value_and_gate_swapped", "swiglu",
     [](const SmallBlock& b) {
       return golden::swiglu(
           columns_moved(b.node("ffn_gate_up"), [](std::int64_t c) { return (c + 64) % 128; }));
     }},
    {"one_row_of_the_weight_moved", "ffn_down",
     [](const SmallBlock& b) {
       Tensor weight = b.parameter("block.ff.net.2.weight").clone();
       std::swap_ranges(weight.data<Bf16>(), weight.data<Bf16>() + 64, weight.data<Bf16>() + 64);
       return golden::linear(b.node("swiglu"), weight, nullptr);
     }},
};

struct GoldenMistakes : testing::TestWithParam<MistakeRow> {};

TEST_P(GoldenMistakes, are_seen) {
  const SmallBlock block;
  const double error = relative_error(GetParam().evaluate(block), block.recorded(GetParam().node));
  RecordProperty("measured", fmt::format("{:.2e}", error));
  EXPECT_GE(error, kMistakeSeen);  // false for NaN: a mistake that cannot be evaluated shows nothing
}

INSTANTIATE_TEST_SUITE_P(host, GoldenMistakes, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
