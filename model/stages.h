// The whole model: its graphs in forward execution order, and which values pass from one to another. Inside a
// graph a value has the graph's own name for it ("hidden_states"); in the model it has the name of what made
// it ("transformer_blocks.3.residual_mlp", "packing"), or of what was given ("video_rows").
#pragma once

#include <string>
#include <vector>

#include "model/graph.h"

namespace h3 {

struct Stage {
  Graph graph;
  std::string prefix;                // of its nodes' names in the model; empty at the boundaries
  std::vector<std::string> sources;  // the model's name of each graph input, in the graph's order

  std::string value(const std::string& node) const { return prefix + node; }
};

// step_tables, entry, refiner blocks, packed_sequence, transformer blocks, exit. Given: timesteps, positions,
// video_rows, audio_rows, text_rows, adaln_indices, timestep_indices, video_indices, audio_indices,
// text_indices. Results: video_output, audio_output.
std::vector<Stage> model_stages(const Config& config);

inline constexpr const char* kModelOutputs[] = {"video_output", "audio_output"};

// Whether a node's value is held against the golden: every node of a boundary stage, and of a block its
// output.
bool is_compared(const Stage& stage, const Node& node);

// Those, by the model's names, in forward execution order.
std::vector<std::string> compared_values(const std::vector<Stage>& stages);

}  // namespace h3
