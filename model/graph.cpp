#include "model/graph.h"

#include "model/error.h"

namespace h3 {

const Node& Graph::node(const std::string& wanted) const {
  for (const auto& node : nodes)
    if (node.name == wanted) return node;
  fail("graph {}: no node '{}'", name, wanted);
}

Graph transformer_block(const Config& config, std::int64_t index) {
  const std::string at = fmt::format("transformer_blocks.{}", index);
  const auto p = [&](const char* name) { return at + "." + name; };
  const std::int64_t hidden = config.hidden_size, inner = config.inner_dim(), ffn = config.ffn_dim;
  return {at,
          {"hidden_states", "temb", "adaln_indices", "rotary_cos", "rotary_sin"},
          {
              {"adaln_projection",
               "adaln_projection_3mod",
               {"temb"},
               {p("adaln_proj.linear.weight"), p("adaln_proj.linear.bias")},
               config.modulation_dim()},
              {"norm1",
               "h3_rmsnorm",
               {"hidden_states", "adaln_projection", "adaln_indices"},
               {p("norm1.weight")},
               hidden},
              {"q_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_q.weight")}, inner},
              {"k_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_k.weight")}, inner},
              {"v_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_v.weight")}, inner},
              {"q_norm", "h3_qk_rmsnorm_d128", {"q_proj"}, {p("attn.norm_q.weight")}, inner},
              {"k_norm", "h3_qk_rmsnorm_d128", {"k_proj"}, {p("attn.norm_k.weight")}, inner},
              {"rope_q", "h3_mm_rope_3axis_partial", {"q_norm", "rotary_cos", "rotary_sin"}, {}, inner},
              {"rope_k", "h3_mm_rope_3axis_partial", {"k_norm", "rotary_cos", "rotary_sin"}, {}, inner},
              {"attention", "h3_full_attention", {"rope_q", "rope_k", "v_proj"}, {}, inner, false},
              {"o_proj", "h3_attention_o_gemm", {"attention"}, {p("attn.to_out.0.weight")}, hidden},
              {"residual_attn",
               "adaln_gate_residual",
               {"hidden_states", "o_proj", "adaln_projection", "adaln_indices"},
               {},
               hidden},
              {"norm2",
               "h3_rmsnorm",
               {"residual_attn", "adaln_projection", "adaln_indices"},
               {p("norm2.weight")},
               hidden},
              {"ffn_gate_up", "h3_ffn_gate_up_gemm", {"norm2"}, {p("ff.net.0.proj.weight")}, 2 * ffn},
              {"swiglu", "h3_swiglu", {"ffn_gate_up"}, {}, ffn},
              {"ffn_down", "h3_ffn_down_gemm", {"swiglu"}, {p("ff.net.2.weight")}, hidden},
              {"residual_mlp",
               "adaln_gate_residual",
               {"residual_attn", "ffn_down", "adaln_projection", "adaln_indices"},
               {},
               hidden},
          }};
}

Graph refiner_block(const Config& config, std::int64_t index) {
  const std::string at = fmt::format("token_refiner.refiner_blocks.{}", index);
  const auto p = [&](const char* name) { return at + "." + name; };
  const std::int64_t hidden = config.hidden_size, inner = config.inner_dim(), ffn = config.ffn_dim;
  return {at,
          {"hidden_states"},
          {
              {"norm1", "h3_rmsnorm", {"hidden_states"}, {p("norm1.weight")}, hidden},
              {"q_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_q.weight")}, inner},
              {"k_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_k.weight")}, inner},
              {"v_proj", "h3_qkv_gemm", {"norm1"}, {p("attn.to_v.weight")}, inner},
              {"q_norm", "h3_qk_rmsnorm_d128", {"q_proj"}, {p("attn.norm_q.weight")}, inner},
              {"k_norm", "h3_qk_rmsnorm_d128", {"k_proj"}, {p("attn.norm_k.weight")}, inner},
              {"attention", "h3_full_attention", {"q_norm", "k_norm", "v_proj"}, {}, inner, false},
              {"o_proj", "h3_attention_o_gemm", {"attention"}, {p("attn.to_out.0.weight")}, hidden},
              {"residual_attn", "residual", {"hidden_states", "o_proj"}, {}, hidden},
              {"norm2", "h3_rmsnorm", {"residual_attn"}, {p("norm2.weight")}, hidden},
              {"ffn_gate_up", "h3_ffn_gate_up_gemm", {"norm2"}, {p("ff.net.0.proj.weight")}, 2 * ffn},
              {"swiglu", "h3_swiglu", {"ffn_gate_up"}, {}, ffn},
              {"ffn_down", "h3_ffn_down_gemm", {"swiglu"}, {p("ff.net.2.weight")}, hidden},
              {"residual_mlp", "residual", {"residual_attn", "ffn_down"}, {}, hidden},
          }};
}

Graph step_tables(const Config& config) {
  return {"step_tables",
          {"timesteps", "positions"},
          {
              {"timestep_sinusoid", "timestep_sinusoid_h3", {"timesteps"}, {}, config.freq_dim},
              {"rotary_cos", "rotary_tables", {"positions"}, {}, config.rotary_dim()},
              {"rotary_sin", "rotary_tables", {"positions"}, {}, config.rotary_dim()},
          }};
}

Graph model_entry(const Config& config) {
  return {"entry",
          {"timestep_sinusoid", "video_rows", "audio_rows", "text_rows"},
          {
              {"timestep_mlp",
               "timestep_mlp_fp32",
               {"timestep_sinusoid"},
               {"time_embedder.linear_1.weight", "time_embedder.linear_1.bias",
                "time_embedder.linear_2.weight", "time_embedder.linear_2.bias"},
               config.time_embed_dim},
              {"video_in_proj",
               "video_input_projection_fp32",
               {"video_rows"},
               {"proj_in.weight", "proj_in.bias"},
               config.hidden_size},
              {"audio_in_proj",
               "audio_input_projection_fp32",
               {"audio_rows"},
               {"audio_proj_in.weight", "audio_proj_in.bias"},
               config.hidden_size},
              {"context_embedder",
               "context_embedder",
               {"text_rows"},
               {"context_embedder.weight", "context_embedder.bias"},
               config.hidden_size},
          }};
}

Graph packed_sequence(const Config& config) {
  return {
      "packed_sequence",
      {"hidden_states", "video_in_proj", "audio_in_proj", "text_indices", "video_indices", "audio_indices"},
      {
          {"token_refiner.final_norm",
           "h3_rmsnorm",
           {"hidden_states"},
           {"token_refiner.final_norm.weight"},
           config.hidden_size},
          {"packing",
           "packing",
           {"token_refiner.final_norm", "video_in_proj", "audio_in_proj", "text_indices", "video_indices",
            "audio_indices"},
           {},
           config.hidden_size,
           false},
      }};
}

Graph model_exit(const Config& config) {
  const std::int64_t hidden = config.hidden_size;
  return {"exit",
          {"hidden_states", "temb", "timestep_indices", "video_indices", "audio_indices"},
          {
              {"norm_out_table",
               "final_adaln_out",
               {"temb"},
               {"norm_out.linear.weight", "norm_out.linear.bias"},
               2 * hidden},
              {"norm_out",
               "final_adaln_out",
               {"hidden_states", "norm_out_table", "timestep_indices"},
               {"norm_out.norm.weight"},
               hidden},
              {"norm_out_fp32", "widening", {"norm_out"}, {}, hidden},
              {"video_out_proj",
               "fp32_output_head",
               {"norm_out_fp32"},
               {"proj_out.weight", "proj_out.bias"},
               config.video_row_dim()},
              {"video_output",
               "row_selection",
               {"video_out_proj", "video_indices"},
               {},
               config.video_row_dim(),
               false},
              {"audio_out_proj",
               "fp32_output_head",
               {"norm_out_fp32"},
               {"audio_proj_out.weight", "audio_proj_out.bias"},
               config.audio_in_channels},
              {"audio_output",
               "row_selection",
               {"audio_out_proj", "audio_indices"},
               {},
               config.audio_in_channels,
               false},
          }};
}

}  // namespace h3
