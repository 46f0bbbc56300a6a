#include "model/stages.h"

namespace h3 {

std::vector<Stage> model_stages(const Config& config) {
  std::vector<Stage> stages;
  stages.push_back({step_tables(config), "", {"timesteps", "positions"}});
  stages.push_back({model_entry(config), "", {"timestep_sinusoid", "video_rows", "audio_rows", "text_rows"}});
  const auto last_value = [&] { return stages.back().value(stages.back().graph.nodes.back().name); };
  const auto add = [&](Graph graph, std::vector<std::string> sources) {
    const std::string prefix = graph.name + ".";
    stages.push_back({std::move(graph), prefix, std::move(sources)});
  };

  for (std::int64_t j = 0; j < config.num_refiner_layers; ++j)
    add(refiner_block(config, j), {j == 0 ? "context_embedder" : last_value()});
  stages.push_back({packed_sequence(config),
                    "",
                    {config.num_refiner_layers == 0 ? "context_embedder" : last_value(), "video_in_proj",
                     "audio_in_proj", "text_indices", "video_indices", "audio_indices"}});
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    add(transformer_block(config, i),
        {last_value(), "timestep_mlp", "adaln_indices", "rotary_cos", "rotary_sin"});
  stages.push_back({model_exit(config),
                    "",
                    {last_value(), "timestep_mlp", "timestep_indices", "video_indices", "audio_indices"}});
  return stages;
}

bool is_compared(const Stage& stage, const Node& node) {
  return stage.prefix.empty() || node.name == stage.graph.nodes.back().name;
}

std::vector<std::string> compared_values(const std::vector<Stage>& stages) {
  std::vector<std::string> values;
  for (const Stage& stage : stages)
    for (const Node& node : stage.graph.nodes)
      if (is_compared(stage, node)) values.push_back(stage.value(node.name));
  return values;
}

}  // namespace h3
