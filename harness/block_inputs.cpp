#include "harness/block_inputs.h"

#include "golden/rotary_tables.h"
#include "golden/timestep_mlp.h"
#include "golden/timestep_sinusoid.h"
#include "kernels/rotary_tables.h"
#include "kernels/timestep_mlp.h"
#include "kernels/timestep_sinusoid.h"
#include "model/synthetic.h"

namespace h3 {

Tensor stand_in_hidden_states(const PackedLayout& layout, const Config& config, std::uint64_t seed,
                              int block) {
  return synthetic_activation(seed, fmt::format("transformer_blocks.{}.hidden_states", block),
                              {layout.rows(), config.hidden_size}, DType::bf16, 1, true);
}

BlockInputs block_inputs(const PackedLayout& layout, const Weights& weights, const Config& config,
                         std::uint64_t seed, int block, bool with_golden) {
  const Tensor hidden_states = stand_in_hidden_states(layout, config, seed, block);
  const Tensor timesteps = layout.timesteps_tensor(), positions = layout.positions_tensor();
  const std::int64_t steps = timesteps.elements(), rows = layout.rows(), angles = config.rotary_dim();
  const Tensor w1 = weights.tensor("time_embedder.linear_1.weight"),
               b1 = weights.tensor("time_embedder.linear_1.bias");
  const Tensor w2 = weights.tensor("time_embedder.linear_2.weight"),
               b2 = weights.tensor("time_embedder.linear_2.bias");

  Tensor features(DType::fp32, {steps, config.freq_dim}), temb(DType::fp32, {steps, config.time_embed_dim});
  Tensor cos(DType::fp32, {rows, angles}), sin(DType::fp32, {rows, angles});
  kernels::timestep_sinusoid(timesteps, features);
  kernels::timestep_mlp(features, w1, b1, w2, b2, temb);
  kernels::rotary_tables(positions, config.rope_theta, cos, sin);

  BlockInputs inputs;
  inputs.candidate = {{"hidden_states", hidden_states},
                      {"temb", temb},
                      {"adaln_indices", layout.adaln_indices_tensor()},
                      {"rotary_cos", cos},
                      {"rotary_sin", sin}};
  inputs.boundaries = {
      {"timestep_sinusoid", features}, {"timestep_mlp", temb}, {"rotary_cos", cos}, {"rotary_sin", sin}};
  if (with_golden) {
    const Tensor truth =
        golden::timestep_mlp(golden::timestep_sinusoid(timesteps, config.freq_dim), w1, b1, w2, b2);
    const auto tables =
        golden::rotary_tables(positions, golden::rotary_frequencies(config.rope_freq_dim, config.rope_theta));
    inputs.golden = {{"hidden_states", hidden_states.to(DType::fp32)},
                     {"temb", truth},
                     {"adaln_indices", inputs.candidate.at("adaln_indices")},
                     {"rotary_cos", tables.cos},
                     {"rotary_sin", tables.sin}};
  }
  return inputs;
}

}  // namespace h3
