// The candidate gate of the whole model: forward and backward beside the golden, the boundaries' nodes and
// the blocks' outputs, their gradients, every parameter's gradient and those of the inputs against their
// bounds, and where the first drift is in execution order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare.h"
#include "harness/full_model.h"
#include "harness/full_model_bounds.h"

namespace h3 {

struct TensorResult {
  Pass pass;
  std::string name;
  std::string stage;  // that computed it
  DType dtype = DType::bf16;
  Shape shape;
  std::string xxh3_128;
  double relative_l2 = 0, max_abs = 0, cosine = 1;
  std::int64_t max_abs_index = -1;
  double golden_norm = 0;
  TensorBound bound = {};
  bool accepted = false;       // inside the bound, written, and finite wherever the golden is
  bool within_single = false;  // of the rule with one provider: reported, does not decide
  std::string reason = {};     // one line: the limit that decided
};

struct FullModelReport {
  std::string config, layout, engine, weights, chain_isa;
  std::int64_t rows = 0;
  FullModelBounds bounds;
  std::string block0;  // what stood for the block-0 gate; empty where it was not asked for
  std::int64_t nodes = 0, nodes_bound_to_row = 0;
  std::vector<TensorResult> tensors;  // in execution order: forward, then backward
  double seconds_candidate = 0, seconds_golden = 0;

  const TensorResult* first_drift(Pass pass) const;  // null: none
  const TensorResult& tensor(Pass pass, const std::string& name) const;
  // Bounds whose tensor was not computed. Each is a fault of the run.
  std::vector<std::string> missing() const;
  bool accepted() const;
};

// `done` of `steps` stages, forward and backward together.
using FullModelProgress = std::function<void(std::int64_t done, std::int64_t steps, const std::string& next)>;

using OnCompared =
    std::function<void(const TensorResult& result, const Tensor& golden, const Tensor& candidate)>;

// Errors: a node that is not bound to its row; a tensor without a bound. `candidate` and `golden` are of the
// model that the weights are for.
FullModelReport examine_full_model(const Execution& candidate, const Execution& golden,
                                   const Weights& weights, const PackedLayout& layout,
                                   const FullModelBounds& bounds, const FullModelProgress& progress = {},
                                   const OnCompared& on_compared = {});

struct FullModelRequest {
  std::string config = "reduced", engine = "cpu";
  std::string layout;          // empty: the one that the bounds are for; another one is an error
  std::string checkpoint;      // folder; empty: the synthetic weights that the bounds are for
  std::string block0_receipt;  // of a closed gate block0; empty: block 0 is replayed here
};

// The gate, in this order and not going on where one fails: bounds and their inventory, block 0 (a report
// without tensors when it is not closed), then the model. Errors name what does not fit.
FullModelReport check_full_model(const FullModelRequest& request, const FullModelProgress& progress = {});

}  // namespace h3
