// The whole model in one execution, stage after stage (model/stages.h): forward keeps only what passes
// between stages, a block's input among it; backward goes through the stages in reverse, computes each one's
// forward again from what it was given, and hands out the gradients as they are complete. Two of them side by
// side are a candidate and its golden.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/execution/backward_chain.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "model/checkpoint.h"
#include "model/layout.h"
#include "model/stages.h"

namespace h3 {

// What the model is given: the layout's own tensors, and stand-ins for the latents of video and audio (FP32)
// and for the text condition (BF16), functions of (seed, "video_rows", "audio_rows", "text_rows", index).
Values model_inputs(const PackedLayout& layout, const Config& config, std::uint64_t seed);

// The layout's own tensors among them.
Values layout_inputs(const PackedLayout& layout);

// Where a backward begins: the gradients of video_output and audio_output, FP32, likewise under the names
// "gradient.video_output" and "gradient.audio_output".
Values model_output_gradients(const PackedLayout& layout, const Config& config, std::uint64_t seed);

// The same in FP32, for the golden; indices and positions as they are.
Values widened(Values values);

class FullModel {
 public:
  using Named = std::vector<std::pair<std::string, Tensor>>;  // by the model's names, in execution order
  // Every node's output as it is computed, by the forward pass or again for the backward.
  using OnNode = std::function<void(const Stage& stage, const Node& node, const Tensor& output)>;
  // Every node's backward with all that went into it.
  using OnStep = std::function<void(const Stage& stage, const BackwardStep& step)>;

  // `inputs` lie on the CPU; what comes out lies where the execution keeps it.
  FullModel(const Execution& execution, const Weights& weights, Values inputs);

  void observe(OnNode on_node, OnStep on_step);

  // Goes on from where `other`, the same model, stands: the stage that is next there is next here, and gets
  // what it gets there, each tensor as `take` turns it into one for this execution. With all_stages the
  // stages after it can follow.
  enum class Scope { next_stage, all_stages };
  void go_on_from(const FullModel& other, const std::function<Tensor(const Tensor&)>& take,
                  Scope scope = Scope::next_stage);

  const Stage* next_forward() const;   // null: every stage has run
  const Stage* next_backward() const;  // likewise, after start_backward

  // Runs the next stage. Its values that are compared.
  Named forward_stage();

  // After the last stage. The gradients of the model's outputs.
  void start_backward(const Values& output_gradients);

  // Runs the next stage in reverse order: forward from its inputs, then backward. The gradients that are
  // complete with it: of its parameters and of its values that are compared, in reverse execution order; then
  // of those inputs of the stage that no earlier stage reads. A stage without parameters that no gradient
  // reaches gives nothing.
  Named backward_stage();

 private:
  Values inputs_of(const Stage& stage) const;
  std::vector<Tensor> parameters_of(const Node& node) const;
  bool read_later(const std::string& value) const;  // by a stage that has not run forward
  bool read_before(const std::string& value, std::size_t stage) const;

  const Execution& execution_;
  const Weights& weights_;
  std::vector<Stage> stages_;
  Values values_, reaching_;  // between stages: of the forward pass; their gradients so far
  OnNode on_node_;
  OnStep on_step_;
  std::size_t forward_ = 0, backward_ = 0;  // stages that have run forward; that are left to run backward
};

}  // namespace h3
