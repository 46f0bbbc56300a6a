// What a block needs before its first node: the packed rows' stand-in for the residual stream, the timestep
// embedding and the rotary tables, computed by the boundary rows of the same execution.
#pragma once

#include <map>
#include <string>

#include "harness/execution/execution.h"
#include "model/checkpoint.h"
#include "model/layout.h"
#include "model/tensor.h"

namespace h3 {

using Values = std::map<std::string, Tensor>;  // tensors by graph input or node name

struct BlockInputs {
  Values candidate;   // hidden_states BF16, temb FP32, adaln_indices i64, rotary_cos and rotary_sin FP32
  Values golden;      // the same in FP32 from the golden boundaries; empty unless asked for
  Values boundaries;  // timestep_sinusoid, timestep_mlp, rotary_cos, rotary_sin of the candidate
};

// hidden_states (S,5376) BF16: a function of (seed, "transformer_blocks.<block>.hidden_states", index) with a
// few massive channels, as deep residual streams have.
Tensor stand_in_hidden_states(const PackedLayout& layout, const Config& config, std::uint64_t seed,
                              int block);

// The gradient of a block's output, (S,5376) BF16, where a backward begins: likewise, under the name
// "gradient.residual_mlp", without massive channels.
Tensor stand_in_output_gradient(const PackedLayout& layout, const Config& config, std::uint64_t seed);

// golden null: without the golden's values.
BlockInputs block_inputs(const PackedLayout& layout, const Weights& weights, std::uint64_t seed, int block,
                         const Execution& candidate, const Execution* golden);

}  // namespace h3
