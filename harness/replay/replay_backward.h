// Replays the backward of a block node by node, in reverse execution order, and says what was found in each
// of its gradients: digest, error against the golden, the verdict against the provider's record, repeat and
// batch-row checks, and where each kind of drift starts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/replay/replay.h"

namespace h3 {

// What a record says about a gradient: how far from the golden it may be, whether it has the provider's
// bytes, and how either is rounded. Absent where the provider's own runs differ.
struct RecordedVerdict {
  Bound bound;
  std::optional<ProviderVerdict> bytes = {};
  std::optional<SampledUlp> ulp = {};  // with golden
};

// The gradient of one value: what reaches a node's output or a graph input, or a parameter's.
struct GradientResult {
  std::string value;
  std::string node, row;  // the node whose backward completed it, and its RFC row; empty: it was given
  DType dtype = DType::bf16;
  Shape shape;
  std::string xxh3_128, sha256;
  std::optional<GoldenError> golden;        // against the golden's chained backward of its own forward pass
  std::optional<RecordedVerdict> provider;  // set with a record
  int passes_differing = 0;                 // whole backward passes after the first that gave other bytes
};

// What one node's backward did with the gradient that reached it.
struct BackwardNode {
  std::string node, row;
  Binding binding = Binding::row;
  double seconds = 0;
  std::optional<Drift> repeat_drift, batch_drift;  // named by the value whose gradient drifts
};

struct BackwardReport {
  ReplayRequest request;
  std::string graph;
  std::int64_t rows = 0;
  std::string provider;  // environment of the record, or why there is no verdict
  bool provider_recorded = false;
  std::vector<GradientResult> gradients;  // as they are completed, the given one first
  std::vector<BackwardNode> nodes;        // in reverse execution order
  std::optional<std::int64_t> permuted_rows_changed, permuted_leaves_changed;
  double seconds_candidate = 0, seconds_golden = 0;  // of the backward alone

  std::optional<Drift> first_drift() const;         // against the provider
  std::optional<Drift> first_golden_drift() const;  // the first gradient outside its bound
  std::optional<Drift> first_repeat_drift() const;
  std::optional<Drift> first_batch_drift() const;
  bool repeated() const { return request.repeat || request.backward_passes > 1; }
  Bindings bindings() const;
  const GradientResult& gradient(const std::string& value) const;
  // Strict: complete, every node `row` or `candidate`, no repeat or batch drift, every golden error inside
  // its bound. Drift against the provider is reported and does not decide: its own backward adds with atomics
  // and does not repeat.
  bool accepted() const;
};

// A forward pass that was kept whole, and the gradient of its output: what a backward starts from.
struct ForwardPass {
  const Graph& graph;
  const Execution& engine;
  const Execution* golden;          // null: no golden errors
  Values candidate, golden_values;  // every graph input and every node's output
  Tensor output_gradient;           // in the candidate's type
  std::function<std::vector<Tensor>(const Node&)> parameters;
};

// The record's verdict on a gradient with this SHA-256; the golden is empty where there is none. Empty: no
// record, no verdicts and no bounds.
using GradientJudge = std::function<RecordedVerdict(const std::string& value, const Tensor& golden,
                                                    const Tensor& gradient, const std::string& sha256)>;
using GradientObserver = std::function<void(const std::string& value, const Tensor& gradient)>;

// Every gradient of the pass, with the checks that are asked for except for those that need another pass.
// Calls `observe` with each gradient that is complete.
BackwardReport examine_backward(ForwardPass pass, const ReplayRequest& asked, const GradientJudge& judge,
                                const ReplayProgress& progress = {}, const GradientObserver& observe = {});

inline constexpr std::int64_t kBackwardSteps = 18;  // the forward pass and 17 nodes

// The block forward, then backward from a synthetic gradient of its output
// (harness/execution/block_inputs.h).
BackwardReport replay_backward(const ReplayRequest& request, const ReplayProgress& progress = {});

}  // namespace h3
