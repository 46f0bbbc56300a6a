// config.json of the transformer, as the provider writes and reads it.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/json.h"

namespace h3 {

inline constexpr const char* kModelClass = "MiniMaxH3Transformer3DModel";

// Every number of the configuration with its name in config.json, except patch_size, which is a list of
// three.
template <class AnyConfig, class Visit>
void for_each_number(AnyConfig& c, Visit visit) {
  visit("num_attention_heads", c.num_attention_heads);
  visit("attention_head_dim", c.attention_head_dim);
  visit("hidden_size", c.hidden_size);
  visit("num_layers", c.num_layers);
  visit("num_refiner_layers", c.num_refiner_layers);
  visit("ffn_dim", c.ffn_dim);
  visit("in_channels", c.in_channels);
  visit("audio_in_channels", c.audio_in_channels);
  visit("text_dim", c.text_dim);
  visit("freq_dim", c.freq_dim);
  visit("time_embed_hidden_dim", c.time_embed_hidden_dim);
  visit("time_embed_dim", c.time_embed_dim);
  visit("rope_freq_dim", c.rope_freq_dim);
  visit("rope_theta", c.rope_theta);
  visit("norm_eps", c.norm_eps);
  visit("qk_norm_eps", c.qk_norm_eps);
  visit("final_norm_eps", c.final_norm_eps);
}

nlohmann::ordered_json config_to_json(const Config& config);

// Every field has to be there, with a positive number; names that start with "_" are the provider's own.
// `what` names the text in errors.
Config config_from_json(const nlohmann::json& json, const std::string& what);

// What keeps `json` from being `expected`, one line each; empty when they agree in every field and in the
// class.
std::vector<std::string> config_differences(const nlohmann::json& json, const Config& expected);

}  // namespace h3
