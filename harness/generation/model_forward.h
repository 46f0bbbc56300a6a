// The whole model, forward only, evaluation after evaluation: what a generation calls once per step.
// Parameters stay where the execution keeps its tensors, and so does every value that no step can change: the
// rotary tables and the refined text depend on positions and text alone, and are computed by the first
// evaluation.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "model/checkpoint.h"
#include "model/stages.h"

namespace h3 {

// Inputs of the model that are other ones in every evaluation of a generation; all others are fixed.
inline constexpr const char* kStepInputs[] = {"timesteps", "adaln_indices", "timestep_indices", "video_rows",
                                              "audio_rows"};

// The model's names of the nodes that depend on none of those, directly or through others.
std::set<std::string> fixed_nodes(const std::vector<Stage>& stages);

class ModelForward {
 public:
  // With `keep_fixed` false every evaluation computes every node: the same bytes, more slowly.
  ModelForward(const Execution& execution, const Weights& weights, bool keep_fixed = true);

  // `inputs` on the CPU, under the names of model/stages.h. video_output and audio_output, on the CPU. The
  // fixed inputs are those of the first call.
  Values evaluate(const Values& inputs);

  std::int64_t nodes_run() const { return nodes_run_; }  // over all evaluations

 private:
  void run_stage(std::size_t place, Values& values);
  Tensor parameter(const std::string& name);
  bool read_after(std::size_t place, const std::string& value) const;  // by a later stage

  const Execution& execution_;
  const Weights& weights_;
  std::vector<Stage> stages_;
  std::set<std::string> fixed_;
  Values parameters_;
  Values kept_;  // of the fixed nodes, what others read
  bool first_ = true;
  std::int64_t nodes_run_ = 0;
};

}  // namespace h3
