// RFC row h3_arch_fingerprint: the 638 tensors and 878 nodes of the released model, and of any other
// configuration.
#include "model/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

namespace h3 {
namespace {

struct ModelCase {
  const char* name;
  Config config;
  std::int64_t tensors, parameters, size_bytes, fp32_tensors, fp32_parameters, nodes;
  const char* sha256;
};
void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.name; }

Config unit_test_config() {
  Config c;
  c.num_attention_heads = 2, c.attention_head_dim = 16, c.hidden_size = 24, c.num_layers = 2, c.ffn_dim = 32;
  c.in_channels = 4, c.audio_in_channels = 6, c.text_dim = 8, c.freq_dim = 8;
  c.time_embed_hidden_dim = 24, c.time_embed_dim = 16, c.rope_freq_dim = 2;
  return c;
}

struct ArchFingerprint : testing::TestWithParam<ModelCase> {};

TEST_P(ArchFingerprint, counts_match_the_published_totals) {
  const ModelCase& model = GetParam();
  const Fingerprint print = fingerprint(model.config);
  EXPECT_EQ(print.tensors, model.tensors);
  EXPECT_EQ(print.parameters, model.parameters);
  EXPECT_EQ(print.size_bytes, model.size_bytes);
  EXPECT_EQ(print.fp32_tensors, model.fp32_tensors);
  EXPECT_EQ(print.fp32_parameters, model.fp32_parameters);
  EXPECT_EQ(print.nodes, model.nodes);
}

TEST_P(ArchFingerprint, digest_is_pinned) {
  EXPECT_EQ(fingerprint(GetParam().config).sha256, GetParam().sha256) << canonical_text(GetParam().config);
}

TEST_P(ArchFingerprint, groups_partition_the_tensors) {
  const Config& config = GetParam().config;
  std::set<std::string> names;
  for (const TensorSpec& spec : tensor_specs(config))
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
  std::size_t grouped = boundary_specs(config).size();
  for (const TensorSpec& spec : boundary_specs(config)) EXPECT_TRUE(names.contains(spec.name)) << spec.name;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    EXPECT_EQ(block_specs(config, i).size(), 12u);
    for (const TensorSpec& spec : block_specs(config, i)) EXPECT_TRUE(names.contains(spec.name)) << spec.name;
    grouped += 12;
  }
  for (std::int64_t j = 0; j < config.num_refiner_layers; ++j) {
    EXPECT_EQ(refiner_specs(config, j).size(), 10u);
    for (const TensorSpec& spec : refiner_specs(config, j))
      EXPECT_TRUE(names.contains(spec.name)) << spec.name;
    grouped += 10;
  }
  EXPECT_EQ(grouped, names.size());
}

TEST_P(ArchFingerprint, digest_sees_every_field) {
  const Config& original = GetParam().config;
  const std::string digest = fingerprint(original).sha256;
  std::set<std::string> digests = {digest};
  const auto changed = [&](auto field, auto value) {
    Config other = original;
    other.*field = value;
    EXPECT_TRUE(digests.insert(fingerprint(other).sha256).second);
  };
  for (const auto field :
       {&Config::num_attention_heads, &Config::attention_head_dim, &Config::hidden_size, &Config::num_layers,
        &Config::num_refiner_layers, &Config::ffn_dim, &Config::in_channels, &Config::audio_in_channels,
        &Config::patch_t, &Config::patch_h, &Config::patch_w, &Config::text_dim, &Config::freq_dim,
        &Config::time_embed_hidden_dim, &Config::time_embed_dim, &Config::rope_freq_dim})
    changed(field, original.*field + 1);
  for (const auto field :
       {&Config::rope_theta, &Config::norm_eps, &Config::qk_norm_eps, &Config::final_norm_eps})
    changed(field, original.*field * 2);
}

TEST_P(ArchFingerprint, refuses_a_block_that_is_not_there) {
  const Config& config = GetParam().config;
  EXPECT_THROW(block_specs(config, config.num_layers), Error);
  EXPECT_THROW(block_specs(config, -1), Error);
  EXPECT_THROW(refiner_specs(config, config.num_refiner_layers), Error);
}

// Totals of the released model are the published ones; those of the small one are the provider's state_dict,
// counted.
const ModelCase kModels[] = {
    {"released", Config{}, 638, 33'122'992'896, 66'280'430'080, 12, 17'222'144, 878,
     "946e64b7a9b50952b6856348f798808eec16ae81f337bea8542b9fc5bdb8fe44"},
    {"unit_test", unit_test_config(), 62, 39'334, 82'152, 12, 1'742, 62,
     "724625511756cdb3ac16401d60bfb1a250fac416d19d4523fc1aa9b85b544430"},
};
INSTANTIATE_TEST_SUITE_P(host, ArchFingerprint, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
