#include "harness/execution/block_inputs.h"

#include "model/synthetic.h"

namespace h3 {

Tensor stand_in_hidden_states(const PackedLayout& layout, const Config& config, std::uint64_t seed,
                              int block) {
  return synthetic_activation(seed, fmt::format("transformer_blocks.{}.hidden_states", block),
                              {layout.rows(), config.hidden_size}, DType::bf16, 1, true);
}

Tensor stand_in_output_gradient(const PackedLayout& layout, const Config& config, std::uint64_t seed) {
  return synthetic_activation(seed, "gradient.residual_mlp", {layout.rows(), config.hidden_size},
                              DType::bf16);
}

BlockInputs block_inputs(const PackedLayout& layout, const Weights& weights, std::uint64_t seed, int block,
                         const Execution& candidate, const Execution* golden) {
  const Tensor hidden_states = stand_in_hidden_states(layout, weights.config(), seed, block);
  const Tensor timesteps = layout.timesteps_tensor(), positions = layout.positions_tensor(),
               indices = layout.adaln_indices_tensor();
  const Tensor time_embedder[] = {
      weights.tensor("time_embedder.linear_1.weight"), weights.tensor("time_embedder.linear_1.bias"),
      weights.tensor("time_embedder.linear_2.weight"), weights.tensor("time_embedder.linear_2.bias")};
  const auto values_of = [&](const Boundaries& made, const Tensor& stream) {
    return Values{{"hidden_states", stream},
                  {"temb", made.temb},
                  {"adaln_indices", indices},
                  {"rotary_cos", made.cos},
                  {"rotary_sin", made.sin}};
  };

  BlockInputs inputs;
  const Boundaries made = candidate.boundaries(timesteps, positions, time_embedder);
  inputs.candidate = values_of(made, hidden_states);
  inputs.boundaries = {{"timestep_sinusoid", made.sinusoid},
                       {"timestep_mlp", made.temb},
                       {"rotary_cos", made.cos},
                       {"rotary_sin", made.sin}};
  if (golden)
    inputs.golden =
        values_of(golden->boundaries(timesteps, positions, time_embedder), hidden_states.to(DType::fp32));
  return inputs;
}

}  // namespace h3
