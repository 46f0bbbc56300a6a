#include "model/named_configs.h"

#include "model/error.h"

namespace h3 {
namespace {

Config reduced() {
  Config config;
  config.num_attention_heads = 3;
  config.hidden_size = 256;
  config.num_layers = 4;
  config.ffn_dim = 512;
  config.text_dim = 320;
  config.freq_dim = 64;
  config.time_embed_hidden_dim = 192;
  config.time_embed_dim = 128;
  return config;
}

// Nine heads, 33, 73 and 17 groups of eight channels: hardly any number of ranks divides them.
Config narrow() {
  Config config = reduced();
  config.num_attention_heads = 9;
  config.hidden_size = 264;
  config.ffn_dim = 584;
  config.time_embed_dim = 136;
  return config;
}

}  // namespace

Config config_named(const std::string& name) {
  if (name == "released") return {};
  if (name == "reduced") return reduced();
  if (name == "narrow") return narrow();
  fail("config '{}': expected released, reduced or narrow", name);
}

}  // namespace h3
