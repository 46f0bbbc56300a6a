// MiniMax-H3 in one place: the released configuration (config.json of the transformer) and what follows from
// it.
#pragma once

#include <cstdint>

namespace h3 {

struct Config {
  std::int64_t num_attention_heads = 56;
  std::int64_t attention_head_dim = 128;
  std::int64_t hidden_size = 5376;
  std::int64_t num_layers = 50;
  std::int64_t num_refiner_layers = 2;
  std::int64_t ffn_dim = 14336;
  std::int64_t in_channels = 24;
  std::int64_t audio_in_channels = 32;
  std::int64_t patch_t = 1, patch_h = 2, patch_w = 2;
  std::int64_t text_dim = 5120;
  std::int64_t freq_dim = 256;
  std::int64_t time_embed_hidden_dim = 5376;
  std::int64_t time_embed_dim = 2688;
  std::int64_t rope_freq_dim = 16;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  double qk_norm_eps = 1e-5;
  double final_norm_eps = 1e-5;

  std::int64_t inner_dim() const {
    return num_attention_heads * attention_head_dim;
  }  // 7168, wider than hidden_size
  std::int64_t video_row_dim() const { return in_channels * patch_t * patch_h * patch_w; }  // 96
  std::int64_t rotary_dim() const { return 2 * 3 * rope_freq_dim; }  // 96 of the 128 head channels rotate
  std::int64_t modulation_dim() const { return 6 * hidden_size; }    // one row of the AdaLN table
  bool operator==(const Config&) const = default;
};

// Parts of a modulation row, each hidden_size wide, in the order the projection writes them.
enum class Modulation : std::int64_t { shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp };

enum class Tag : std::int64_t { video = 0, text = 1, audio = 2 };
inline constexpr std::int64_t kTags = 3;

inline constexpr std::uint64_t kDefaultSeed =
    420;  // of synthetic weights and inputs, and of what is recorded with them

}  // namespace h3
