#include <cmath>

#include "harness/compare/tensor_changes.h"
#include "harness/power/controls/lists.h"
#include "harness/power/controls/narrow_model.h"
#include "kernels/full_attention.h"
#include "kernels/linear.h"
#include "kernels/lora_linear.h"
#include "kernels/mm_rope.h"
#include "kernels/rms_norm.h"
#include "model/scheduler.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using namespace spoil;
using Change = std::function<Tensor(const Tensor&)>;

constexpr std::int64_t kHeadDim = 128, kRotated = 96;

// ---- where a fault sits

Plant output(Change change) {
  return {"", [change](const Call& call) { return change(call.run()); }};
}

Plant input(std::size_t which, Change change) {
  return {"", [=](Call call) {
            call.inputs[which] = change(call.inputs[which]);
            return call.run();
          }};
}

Plant inputs_and_parameters(Change change) {
  return {"", [=](Call call) {
            for (auto* list : {&call.inputs, &call.parameters})
              for (Tensor& tensor : *list) tensor = change(tensor);
            return call.run();
          }};
}

Plant instead(std::function<Tensor(Call)> run) { return {"", std::move(run)}; }

Control confined_to(std::function<bool(std::int64_t row)> rows, Control control) {
  control.only_rows = std::move(rows);
  return control;
}

Control given(std::function<void(Values&)> inputs, Control control) {
  control.inputs = std::move(inputs);
  return control;
}

Control beside(Plant both, Control control) {
  control.both = std::move(both);
  return control;
}

// ---- what a fault does

Change rounded_to(DType narrow) {
  return [narrow](const Tensor& x) { return through(x, narrow); };
}

Change scaled(float factor) {
  return [factor](const Tensor& x) { return values(x, [factor](float v) { return v * factor; }); };
}

// Two of the six parts of a modulation table exchanged.
Change parts_exchanged(Modulation a, Modulation b) {
  return [=](const Tensor& table) {
    const std::int64_t width = table.cols() / 6;
    return columns(table, [=](std::int64_t c) {
      const std::int64_t part = c / width;
      return part == std::int64_t(a)   ? std::int64_t(b) * width + c % width
             : part == std::int64_t(b) ? std::int64_t(a) * width + c % width
                                       : c;
    });
  };
}

// The projection's columns taken as (part, tag, channel) where they are (tag, part, channel).
Tensor parts_before_tags(const Tensor& table) {
  const std::int64_t times = table.rows() / kTags, width = table.cols() / 6;
  return columns(table.reshaped({times, kTags * table.cols()}),
                 [=](std::int64_t c) {
                   const std::int64_t tag = c / (6 * width), part = c / width % 6;
                   return (part * kTags + tag) * width + c % width;
                 })
      .reshaped(table.shape());
}

bool is_vision_row_of_the_prompt(std::int64_t row) {
  const PackedLayout& layout = narrow_model().layout;
  return row < layout.text_rows() && layout.token_tags[row] == std::int64_t(Tag::video);
}

Tensor vision_tagged_as_text(const Tensor& indices) {
  Tensor tagged = indices.clone();
  for (std::int64_t row = 0; row < tagged.elements(); ++row)
    if (std::int64_t& index = tagged.data<std::int64_t>()[row]; is_vision_row_of_the_prompt(row))
      index = index / kTags * kTags + std::int64_t(Tag::text);
  return tagged;
}

// The time embedding near the end of the trajectory.
Tensor embedding_of_other_times(const Tensor&) {
  const NarrowModel& model = narrow_model();
  PackedLayout later = model.layout;
  later.set_times({make_schedule(kDefaultGridPoints, kVideoShift).timesteps[47],
                   make_schedule(kDefaultGridPoints, kAudioShift).timesteps[47]});
  const auto of = [&](const char* name) {
    return model.weights->tensor(std::string("time_embedder.linear_") + name);
  };
  const Tensor embedder[] = {of("1.weight"), of("1.bias"), of("2.weight"), of("2.bias")};
  return model.strict->boundaries(later.timesteps_tensor(), later.positions_tensor(), embedder).temb;
}

Tensor wide(const Tensor& x) { return x.dtype() == DType::bf16 ? x.to(DType::fp32) : x; }

// The node with every step in FP32 and wider, rounded once at its end.
Tensor rounded_once(const Call& call) {
  std::vector<Tensor> in, parameters;
  for (const auto& x : call.inputs) in.push_back(wide(x));
  for (const auto& x : call.parameters) parameters.push_back(wide(x));
  return narrow_model().golden->run(call.node, in, parameters).to(DType::bf16);
}

// norm1 with 1 + scale kept in FP32. A table of zeros leaves the norm alone.
Tensor one_plus_scale_in_fp32(Call call) {
  const Tensor table = call.inputs[1];
  call.inputs[1] = scaled(0)(table);
  Tensor y = call.run().clone();
  const std::int64_t cols = y.cols();
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const std::int64_t row = call.inputs[2].data<std::int64_t>()[r] * table.cols();
    for (std::int64_t c = 0; c < cols; ++c) {
      Bf16& word = y.data<Bf16>()[r * cols + c];
      const float shift = table.at(row + std::int64_t(Modulation::shift_msa) * cols + c),
                  scale = table.at(row + std::int64_t(Modulation::scale_msa) * cols + c);
      word = to_bf16(round_bf16(to_float(word) * (1 + scale)) + shift);
    }
  }
  return y;
}

Tensor norm_over_all_heads(const Call& call) {
  const Config& config = narrow_model().config;
  const Tensor x = call.inputs[0].reshaped({call.inputs[0].shape()[0], config.inner_dim()});
  Tensor weight(DType::bf16, {config.inner_dim()}), y(DType::bf16, x.shape());
  for (std::int64_t c = 0; c < weight.elements(); ++c)
    weight.data<Bf16>()[c] = call.parameters[0].data<Bf16>()[c % kHeadDim];
  kernels::rms_norm(x, weight, float(config.qk_norm_eps), y);
  return y.reshaped({x.shape()[0], config.num_attention_heads, kHeadDim});
}

// q's rows of a fused weight that holds q, k and v head by head, read as three blocks.
Tensor grouped_weight_read_in_blocks(Call call) {
  const std::string at = "transformer_blocks.0.attn.to_";
  const Tensor parts[] = {call.parameters[0], narrow_model().weights->tensor(at + "k.weight"),
                          narrow_model().weights->tensor(at + "v.weight")};
  Tensor read = call.parameters[0].clone();
  for (std::int64_t r = 0; r < read.rows(); ++r) {  // fused row r: head, then q, k or v, then channel
    const std::int64_t head = r / (3 * kHeadDim), which = r / kHeadDim % 3, channel = r % kHeadDim;
    std::copy_n(parts[which].data<Bf16>() + (head * kHeadDim + channel) * read.cols(), read.cols(),
                read.data<Bf16>() + r * read.cols());
  }
  call.parameters[0] = read;
  return call.run();
}

// q_proj with an adapter of rank 8, scaled by alpha / 8.
Plant with_adapter(float alpha) {
  return instead([alpha](const Call& call) {
    constexpr std::int64_t kRank = 8;
    const Tensor &x = call.inputs[0], &weight = call.parameters[0];
    const auto part = [](const char* name, Shape shape) {
      return synthetic_activation(kDefaultSeed, name, shape, DType::bf16, 0.05f);
    };
    Tensor y(DType::bf16, {x.rows(), weight.rows()});
    kernels::lora_linear(
        x, weight, nullptr,
        {part("adapter.a", {kRank, x.cols()}), part("adapter.b", {weight.rows(), kRank}), alpha}, y);
    return y;
  });
}

Tensor heads_transposed(const Tensor& x) {
  const std::int64_t heads = x.cols() / kHeadDim;
  return columns(x, [=](std::int64_t c) { return c % heads * kHeadDim + c / heads; });
}

// Neighbouring channels rotated together, where the two halves of the leading 96 are.
Tensor neighbours_paired(Call call) {
  constexpr std::int64_t kHalf = kRotated / 2;
  const auto at_half = [](std::int64_t c) {
    return c < kHalf ? 2 * c : c < kRotated ? 2 * (c - kHalf) + 1 : c;
  };
  const auto back = [](std::int64_t c) { return c >= kRotated ? c : c / 2 + c % 2 * kHalf; };
  call.inputs[0] = columns(call.inputs[0], at_half);
  return columns(call.run(), back);
}

Tensor angles_in_pairs(Call call) {
  for (const std::size_t table : {1, 2})
    call.inputs[table] = columns(call.inputs[table], [](std::int64_t c) { return c / 2; });
  return call.run();
}

Tensor all_channels_rotated(Call call) {
  for (const std::size_t table : {1, 2}) {
    const Tensor& narrow = call.inputs[table];
    Tensor full(DType::fp32, {narrow.rows(), kHeadDim});
    for (std::int64_t r = 0; r < narrow.rows(); ++r)
      for (std::int64_t c = 0; c < kHeadDim; ++c)
        full.data<float>()[r * kHeadDim + c] =
            narrow.data<float>()[r * kRotated + c % (kHeadDim / 2) % (kRotated / 2)];
    call.inputs[table] = full;
  }
  return call.run();
}

Tensor trailing_channels_rotated(Call call) {
  constexpr std::int64_t kFirst = kHeadDim - kRotated;
  call.inputs[0] = columns(call.inputs[0], [](std::int64_t c) { return (c + kFirst) % kHeadDim; });
  return columns(call.run(), [](std::int64_t c) { return (c + kRotated) % kHeadDim; });
}

// Cosines of angles that are brought into one turn in FP32, as fast hardware functions do.
Tensor unreduced_cosines(const Call& call) {
  const Tensor& positions = call.inputs[0];
  Tensor y = call.run().clone();
  const std::int64_t cols = y.cols(), axis = cols / 6;
  for (std::int64_t r = 0; r < y.rows(); ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t i = c % (cols / 2);
      const float frequency = std::pow(10000.0f, -float(i % axis) / float(axis)),
                  angle = float(positions.data<double>()[r * 3 + i / axis]) * frequency,
                  turns = angle * 0.15915494f;
      y.data<float>()[r * cols + c] = std::cos(6.2831855f * (turns - std::floor(turns)));
    }
  return y;
}

void late_positions(Values& inputs) {
  Tensor positions = inputs.at("positions").clone();
  for (std::int64_t r = 0; r < positions.rows(); ++r) positions.data<double>()[r * 3] += 3000;
  inputs["positions"] = positions;
}

// Video latents so large that their rows of the stream leave FP16.
void huge_video(Values& inputs) { inputs["video_rows"] = scaled(0x1p20f)(inputs.at("video_rows")); }

constexpr std::int64_t kMovedRow = 5;
Tensor one_coordinate_moved(const Tensor& positions) {
  Tensor moved = positions.clone();
  moved.data<double>()[kMovedRow * 3] += 1;
  return moved;
}

Tensor channels_interleaved(const Tensor& indices) {
  Tensor alternating = indices.clone();
  const std::int64_t latents = indices.elements() / 2;
  for (std::int64_t i = 0; i < indices.elements(); ++i)
    alternating.data<std::int64_t>()[i] = indices.data<std::int64_t>()[0] + i % latents * 2 + i / latents;
  return alternating;
}

bool is_audio_row(std::int64_t row) {
  return narrow_model().layout.token_tags[row] == std::int64_t(Tag::audio);
}

Tensor patch_channel_last(const Tensor& x) {
  constexpr std::int64_t kPatch = 4;
  const std::int64_t channels = x.cols() / kPatch;
  return columns(x, [=](std::int64_t c) { return c % channels * kPatch + c / channels; });
}

// ---- attention with other keys

Tensor attend(const Call& call, const std::function<Tensor(const Tensor&)>& keys) {
  const auto by_head = [](const Tensor& x) {
    return x.reshaped({x.shape()[0], x.elements() / x.shape()[0] / kHeadDim, kHeadDim});
  };
  const Tensor q = by_head(call.inputs[0]), k = keys(by_head(call.inputs[1])),
               v = keys(by_head(call.inputs[2]));
  Tensor o(DType::bf16, {q.shape()[0], call.node.cols});
  kernels::full_attention(q, k, v, o);
  return o;
}

Plant attention(Change keys) {
  return instead([keys](const Call& call) { return attend(call, keys); });
}

Tensor keys_padded(const Tensor& x) { return padded(x, 64); }

// Every document sees its own keys: the sequence split in two.
Tensor two_documents(const Call& call) {
  const std::int64_t rows_in_all = call.inputs[1].shape()[0], half = rows_in_all / 2;
  Tensor y = call.run().clone();
  for (const std::int64_t first : {std::int64_t(0), half}) {
    Call part = call;
    const std::int64_t count = first == 0 ? half : rows_in_all - half;
    for (Tensor& x : part.inputs) x = x.row_range(first, count).clone();
    const Tensor of_part = part.run();
    std::memcpy(y.row_range(first, count).bytes(), of_part.bytes(), of_part.size_bytes());
  }
  return y;
}

// q, k and v as views of one fused buffer, read as if each were dense.
Tensor strides_ignored(Call call) {
  const std::int64_t rows_in_all = call.inputs[0].shape()[0], width = call.node.cols;
  Tensor fused(DType::bf16, {rows_in_all, 3 * width});
  for (std::int64_t r = 0; r < rows_in_all; ++r)
    for (std::int64_t i = 0; i < 3; ++i)
      std::copy_n(call.inputs[i].data<Bf16>() + r * width, width, fused.data<Bf16>() + (3 * r + i) * width);
  for (std::int64_t i = 0; i < 3; ++i) {
    Tensor read(DType::bf16, call.inputs[i].shape());
    const std::int64_t left = fused.elements() - i * width;  // the view begins at its first row's part
    std::copy_n(fused.data<Bf16>() + i * width, std::min(read.elements(), left), read.data<Bf16>());
    call.inputs[i] = read;
  }
  return call.run();
}

// ---- products in another order

// K in equal pieces, each rounded to BF16 before it is added.
Tensor split_k(const Call& call, std::int64_t pieces) {
  const Tensor &x = call.inputs[0], &weight = call.parameters[0];
  const std::int64_t depth = x.cols() / pieces;
  Tensor sum;
  for (std::int64_t i = 0; i < pieces; ++i) {
    Tensor part(DType::bf16, {x.rows(), weight.rows()});
    kernels::linear(column_range(x, i * depth, depth), column_range(weight, i * depth, depth), nullptr, part);
    if (sum.empty()) {
      sum = part;
      continue;
    }
    for (std::int64_t e = 0; e < sum.elements(); ++e)
      sum.data<Bf16>()[e] = to_bf16(to_float(sum.data<Bf16>()[e]) + to_float(part.data<Bf16>()[e]));
  }
  return sum;
}

Plant split(std::int64_t pieces) {
  return instead([pieces](const Call& call) { return split_k(call, pieces); });
}

Tensor kernel_by_number_of_rows(const Call& call) {
  return call.inputs[0].rows() < 64 ? split_k(call, 2) : call.run();
}

// Every second run finds another launch's partial sums in its workspace.
Tensor workspace_of_two_streams(const Call& call) {
  Tensor y = call.run().clone();
  if (call.number % 2 == 0) return y;
  return rows(y, y.rows(), [](std::int64_t r) { return r < 64 ? r ^ 1 : r; });
}

// Row times stride wraps at 2^16, so that a narrow tensor shows what 2^31 does to a large one.
Tensor tail_lost_to_the_index(const Call& call) {
  const Tensor y = call.run();
  Tensor written(y.dtype(), y.shape());
  const std::int64_t reached = std::min<std::int64_t>(y.elements(), 1 << 16);
  std::copy_n(y.data<Bf16>(), reached, written.data<Bf16>());
  return written;
}

// Keys of the call before are still there.
Plant with_key_cache() {
  return instead([](const Call& call) {
    if (call.number == 0) return call.run();
    return attend(call, [](const Tensor& x) {
      return rows(x, 2 * x.shape()[0], [&](std::int64_t r) { return r % x.shape()[0]; });
    });
  });
}

Tensor other_epsilon(const Call& call) {
  Config config = narrow_model().config;
  config.qk_norm_eps = 1e-6;
  return cpu_execution(config)->run(call.node, call.inputs, call.parameters);
}

// The gate's gradient added up in BF16, row after row as they happen to arrive.
NodeGradients atomic_table_gradient(const Call& call) {
  NodeGradients g = call.backward();
  const Tensor &branch = call.inputs[1], &indices = call.inputs[3];
  Tensor& table = g.inputs[2];
  std::memset(table.bytes(), 0, table.size_bytes());
  const std::int64_t count = branch.rows(), cols = branch.cols();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = call.number % 2 == 0 ? i : count - 1 - i;
    Bf16* sum = table.data<Bf16>() + indices.data<std::int64_t>()[row] * table.cols() +
                std::int64_t(Modulation::gate_mlp) * cols;
    for (std::int64_t c = 0; c < cols; ++c)
      sum[c] = to_bf16(to_float(sum[c]) + call.gradient.at(row * cols + c) * branch.at(row * cols + c));
  }
  return g;
}

}  // namespace

std::vector<Control> controls_in_the_graph() {
  using enum FaultClass;
  const auto bf16 = rounded_to(DType::bf16);
  return {
      // RFC #420, ablation rows
      {"A0", "nothing: strict replay", none, "", Plant{}},
      confined_to(
          [](std::int64_t r) { return r == kMovedRow; },
          {"A1", "one t coordinate of one row + 1", formula, "rotary_cos", input(0, one_coordinate_moved)}),
      {"A2", "epsilon of the query norm 1e-6", rounding, "transformer_blocks.0.q_norm",
       instead(other_epsilon)},
      {"A3", "the sequence split into two documents", formula, "transformer_blocks.0.attention",
       instead(two_documents)},
      {"A5", "keys of the call before are kept", not_repeatable, "transformer_blocks.0.attention",
       with_key_cache()},
      {"A6", "partial sums of every 16 products rounded to BF16", formula, "transformer_blocks.0.ffn_down",
       split(32)},
      {"A7", "keys in reverse order", rounding, "transformer_blocks.0.attention", attention(rows_reversed)},

      // timestep and AdaLN
      {"timestep_bf16_entry", "timesteps through BF16", rounding, "timestep_sinusoid", input(0, bf16)},
      {"sinusoid_halves_swapped", "sine and cosine halves exchanged", layout, "timestep_sinusoid",
       output(halves_swapped)},
      {"time_direction_flipped", "t replaced by 1 - t", formula, "timestep_sinusoid",
       input(0, [](const Tensor& t) { return values(t, [](float x) { return 1 - x; }); })},
      {"fp32_island_flattened", "the timestep MLP in BF16", rounding, "timestep_mlp",
       inputs_and_parameters(bf16)},
      {"fp32_island_flattened.video", "the video input projection in BF16", rounding, "video_in_proj",
       inputs_and_parameters(bf16)},
      {"fp32_island_flattened.audio", "the audio input projection in BF16", rounding, "audio_in_proj",
       inputs_and_parameters(bf16)},
      {"temb_rounded_before_silu", "temb to BF16 before the activation", rounding,
       "transformer_blocks.0.adaln_projection", input(0, bf16)},
      {"modulation_chunks_permuted", "attention shift and scale exchanged", layout,
       "transformer_blocks.0.adaln_projection",
       output(parts_exchanged(Modulation::shift_msa, Modulation::scale_msa))},
      {"modulation_chunks_permuted.gates", "the residual reads the MLP's gate", formula,
       "transformer_blocks.0.residual_attn",
       input(2, parts_exchanged(Modulation::gate_msa, Modulation::gate_mlp))},
      {"modality_split_order", "columns split into parts before tags", layout,
       "transformer_blocks.0.adaln_projection", output(parts_before_tags)},
      confined_to(is_vision_row_of_the_prompt,
                  {"vision_rows_tagged_as_text", "vision rows of the prompt modulated as text", formula,
                   "transformer_blocks.0.norm1", input(2, vision_tagged_as_text)}),
      {"stale_adaln_table", "block 1 reads the table of other times", formula,
       "transformer_blocks.1.adaln_projection", input(0, embedding_of_other_times)},
      {"norm_out_halves_swapped", "final shift and scale exchanged", formula, "norm_out",
       input(1, halves_swapped)},

      // norms and residual stream
      {"fused_norm_keeps_fp32", "norm and modulation rounded once", rounding, "transformer_blocks.0.norm1",
       instead(rounded_once)},
      {"one_plus_scale_precision", "1 + scale kept in FP32", rounding, "transformer_blocks.0.norm1",
       instead(one_plus_scale_in_fp32)},
      given(huge_video, {"residual_fp16_overflow", "residual stream in FP16, values past 65504", non_finite,
                         "transformer_blocks.0.residual_attn", output(rounded_to(DType::fp16))}),
      {"qk_norm_over_all_heads", "query norm over the full inner width", formula,
       "transformer_blocks.0.q_norm", instead(norm_over_all_heads)},

      // projections, layout, LoRA
      {"qkv_rows_left_grouped", "rows fused head by head read as three blocks", formula,
       "transformer_blocks.0.q_proj", instead(grouped_weight_read_in_blocks)},
      {"swiglu_wrong_half", "activation on the other half", formula, "transformer_blocks.0.swiglu",
       input(0, halves_swapped)},
      beside(with_adapter(128), {"lora_alpha_assumed_rank", "adapter of alpha 128 and rank 8 scaled by 1",
                                 formula, "transformer_blocks.0.q_proj", with_adapter(8)}),
      {"head_size_from_hidden", "softmax scale from hidden / heads", formula,
       "transformer_blocks.0.attention", input(0, scaled(std::sqrt(128.0f * 3 / 256)))},
      {"heads_flattened_transposed", "head and channel axes exchanged", formula,
       "transformer_blocks.0.o_proj", input(0, heads_transposed)},

      // rotary embedding and packing
      {"rope_pairing_interleaved", "neighbouring channels rotated together", formula,
       "transformer_blocks.0.rope_q", instead(neighbours_paired)},
      {"rope_pairing_interleaved.tables", "angles laid out in pairs", formula, "transformer_blocks.0.rope_k",
       instead(angles_in_pairs)},
      {"rope_width_wrong", "all 128 channels rotated", formula, "transformer_blocks.0.rope_q",
       instead(all_channels_rotated)},
      {"rope_width_wrong.trailing", "the trailing 96 channels rotated", formula,
       "transformer_blocks.0.rope_k", instead(trailing_channels_rotated)},
      given(late_positions,
            {"fast_trig_large_angles", "cosines of angles reduced in FP32, positions above 3000", rounding,
             "rotary_cos", instead(unreduced_cosines)}),
      confined_to(is_audio_row, {"audio_rows_interleaved", "left and right audio rows alternate", layout,
                                 "packing", input(5, channels_interleaved)}),
      {"patch_feature_order", "features of a video row channel-last", formula, "video_in_proj",
       input(0, patch_channel_last)},

      // attention, execution modes
      {"padding_rows_attended", "alignment rows take part as keys", formula, "transformer_blocks.0.attention",
       attention(keys_padded)},
      {"refiner_pad_unmasked", "the refiner attends to padding", formula,
       "token_refiner.refiner_blocks.0.attention", attention(keys_padded)},
      {"strided_qkv_views", "views of one fused buffer read as dense", formula,
       "transformer_blocks.0.attention", instead(strides_ignored)},
      {"atomic_row_gradients", "table gradient in order of arrival", not_repeatable,
       "transformer_blocks.1.residual_mlp.backward", Plant{"", {}, atomic_table_gradient}},

      // arithmetic modes
      {"splitk_bf16_partials", "K in two halves, BF16 partial sums", rounding,
       "transformer_blocks.0.ffn_down", split(2)},
      {"row_depends_on_batch", "few rows take a kernel that splits K", not_repeatable,
       "transformer_blocks.0.q_proj", instead(kernel_by_number_of_rows)},
      {"shared_gemm_workspace", "two streams in one workspace", not_repeatable, "transformer_blocks.0.k_proj",
       instead(workspace_of_two_streams)},
      {"tf32_on_fp32_islands", "TF32 in the video input projection", rounding, "video_in_proj",
       inputs_and_parameters(tf32)},
      {"tf32_on_fp32_islands.mlp", "TF32 in the timestep MLP", rounding, "timestep_mlp",
       inputs_and_parameters(tf32)},
      {"index_overflow_32bit", "row times stride wraps (at 2^16 here)", memory, "transformer_blocks.0.norm1",
       instead(tail_lost_to_the_index)},
  };
}

}  // namespace h3
