// The candidate gate of the whole model: forward and backward beside two goldens, the boundaries' nodes and
// the blocks' outputs, their gradients, every parameter's gradient and those of the inputs against their
// bounds, and where the first drift is in execution order. One golden runs the whole model by itself
// (chained), the other one gets, stage by stage, what the candidate got (isolated): full_model_bounds.h. So
// does the CPU twin in some stages: the first, the middle and the last block forward, and wherever a bound is
// blind.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/execution/swapped_nodes.h"
#include "harness/full_model/full_model.h"
#include "harness/full_model/full_model_bounds.h"

namespace h3 {

struct TensorError {
  double relative_l2 = 0, max_abs = 0, cosine = 1;
  std::int64_t max_abs_index = -1;
};

// Whether a tensor has the bytes of the CPU twin that goes on from what the candidate gave to the stage.
enum class TwinBytes : std::uint8_t { not_asked, same, differ };

struct TensorResult {
  Pass pass;
  std::string name;
  std::string stage;  // that computed it
  DType dtype = DType::bf16;
  Shape shape;
  std::string xxh3_128;
  TensorError chained = {}, isolated = {};
  TwinBytes twin = TwinBytes::not_asked;
  double golden_norm = 0;  // of the chained golden
  TensorBound bound = {};
  // Inside the bounds that are not blind, the twin's bytes where it was asked, written, and finite where the
  // golden is. Blind in both and without a twin: not accepted.
  bool accepted = false;
  bool within_single = false;  // of the rule with one provider: reported, does not decide
  std::string reason = {};     // one line: the limit that decided

  bool has_the_providers_bytes() const { return xxh3_128 == bound.provider_xxh3_128; }
};

// Nodes that somebody else's kernels computed, those of all blocks together.
struct CandidateNodes {
  std::string name;  // "transformer_blocks.*.residual_attn"
  std::int64_t forward = 0, backward = 0;
};

struct FullModelReport {
  std::string config, layout, engine, weights, chain_isa;
  std::int64_t rows = 0;
  FullModelBounds bounds;
  std::string block0;  // what stood for the block-0 gate; empty where it was not asked for
  Bindings forward_bindings, backward_bindings;
  std::vector<CandidateNodes> candidates;  // in execution order
  std::vector<SwappedNode> swapped;        // on request; such a run is never accepted
  std::vector<TensorResult> tensors;       // in execution order: forward, then backward
  double seconds_candidate = 0, seconds_golden = 0, seconds_twin = 0;

  const TensorResult* first_drift(Pass pass) const;  // null: none
  const TensorResult& tensor(Pass pass, const std::string& name) const;
  // Tensors whose bytes the provider's default run left a digest of, and those that have the same bytes.
  std::int64_t recorded_digests() const, same_digests() const;
  std::int64_t with(TwinBytes twin) const;  // so many tensors
  // Bounds whose tensor was not computed. Each is a fault of the run.
  std::vector<std::string> missing() const;
  bool accepted() const;
};

// `done` of `steps` stages, forward and backward together.
using FullModelProgress = std::function<void(std::int64_t done, std::int64_t steps, const std::string& next)>;

using OnCompared =
    std::function<void(const TensorResult& result, const Tensor& golden, const Tensor& candidate)>;

struct References {
  const Execution &chained, &isolated;  // goldens; may be the same one
  const Execution& twin;                // the strict rows on a CPU
};

// Somebody else's kernels are held to the twin's bytes in every stage that has one of them. Errors: a node
// that is neither bound to its row nor a candidate, unless it is among `swapped`; a tensor without a bound.
// `candidate` and the goldens are of the model that the weights are for. With swapped nodes no twin is asked:
// it has other bytes.
FullModelReport examine_full_model(const Execution& candidate, const References& references,
                                   const Weights& weights, const PackedLayout& layout,
                                   const FullModelBounds& bounds, const FullModelProgress& progress = {},
                                   const OnCompared& on_compared = {},
                                   const std::vector<std::string>& swapped = {});

struct FullModelRequest {
  std::string config = "reduced", engine = "cpu";
  std::string layout = "tiny";  // there are bounds for
  std::string checkpoint;       // folder; empty: the synthetic weights that the bounds are for
  std::string block0_receipt;   // of a closed gate block0; empty: block 0 is replayed here
  NodeSwap swap = {};           // a diagnosis, not the gate
};

// The gate, in this order and not going on where one fails: bounds and their inventory, block 0 (a report
// without tensors when it is not closed), then the model. Errors name what does not fit.
FullModelReport check_full_model(const FullModelRequest& request, const FullModelProgress& progress = {});

}  // namespace h3
