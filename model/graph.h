// The model as graphs of nodes: names, owners, inputs and parameters. It says what is computed from what; how
// it is computed is a matter of the execution that runs it. model/stages.h puts the graphs together.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/dtype.h"

namespace h3 {

struct Node {
  std::string name;                     // "q_proj"
  std::string row;                      // RFC row that owns the arithmetic, "h3_qkv_gemm"
  std::vector<std::string> inputs;      // graph inputs or earlier nodes, in the order the row takes them
  std::vector<std::string> parameters;  // full tensor names, in the order the row takes them
  std::int64_t cols = 0;                // width of an output row
  bool per_row = true;  // an output row depends on the same row of its inputs (and on tables) only

  // Whether input i is taken row by row: not the modulation table, and of attention only the queries.
  bool by_row(std::size_t i) const { return inputs[i] != "adaln_projection" && (per_row || i == 0); }
};

struct Graph {
  std::string name;                 // "transformer_blocks.0"
  std::vector<std::string> inputs;  // what has to be given
  std::vector<Node> nodes;          // in forward execution order
  const Node& node(const std::string& name) const;
};

// 17 nodes. Inputs: hidden_states (S,5376) BF16, temb (U,2688) FP32, adaln_indices (S) i64, rotary_cos and
// rotary_sin (S,96) FP32. Output: residual_mlp (S,5376). The norms include the indexed modulation, the
// residuals the gate.
Graph transformer_block(const Config& config, std::int64_t index);

// 14 nodes: the same without adaln_projection, rope_q and rope_k. Input: hidden_states (L,5376) BF16.
Graph refiner_block(const Config& config, std::int64_t index);

// What depends on the step's times and the layout alone and has no gradient: timestep_sinusoid (U,256),
// rotary_cos and rotary_sin (S,96), FP32. Inputs: timesteps (U) FP32, positions (S,3) FP64.
Graph step_tables(const Config& config);

// timestep_mlp (U,2688), video_in_proj (Nv,5376) and audio_in_proj (Na,5376) in FP32, context_embedder
// (L,5376) in BF16. Inputs: timestep_sinusoid, video_rows (Nv,96) FP32, audio_rows (Na,32) FP32, text_rows
// (L,5120) BF16.
Graph model_entry(const Config& config);

// The refined text's norm, and every modality's rows at their places: packing (S,5376) BF16. Inputs:
// hidden_states (L,5376) of the last refiner block, video_in_proj, audio_in_proj, and the indices of the three
// streams.
Graph packed_sequence(const Config& config);

// The output norm with a modulation table of its own, both heads over all packed rows, and the rows of their
// modality: video_output (Nv,96) and audio_output (Na,32), FP32. Inputs: hidden_states (S,5376) BF16, temb,
// timestep_indices, video_indices, audio_indices.
Graph model_exit(const Config& config);

}  // namespace h3
