// Replays a block node by node and says what was found: digests, error against the golden, the verdict
// against the provider's record, repeat and batch-row checks, and where each kind of drift starts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/provider_record.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "harness/replay/sampled_ulp.h"

namespace h3 {

struct ReplayRequest {
  std::string layout = "tiny";
  std::string engine = "cpu";
  int block = 0;
  std::uint64_t seed = kDefaultSeed;  // of the synthetic weights and of the stand-in inputs
  std::string checkpoint;             // folder; empty: synthetic weights
  bool golden = true;                 // error of every node against the chained golden
  bool repeat = false;                // run every node twice and compare all bytes
  bool batch_rows = true;             // rows alone and rows inside another sequence
  bool permute_rows = false;          // permute the packed rows, canonicalise, replay, undo (control H-C3)
  int backward_passes = 1;            // whole backward passes, whose digests are compared
};

struct GoldenError {
  double relative_l2 = 0, max_abs = 0;
  std::int64_t max_abs_index = 0;
  // Of relative_l2, from the provider's own error: of a node 1.25 x that + 1e-3; of a gradient as recorded.
  // Absent without a record.
  std::optional<double> bound;
  bool accepted = false;    // inside the bound, and finite wherever the golden is
  std::string reason = {};  // why, one line: the limit that decided
};

struct NodeResult {
  std::string node, row;
  Binding binding = Binding::row;
  DType dtype = DType::bf16;
  Shape shape;
  std::string xxh3_128, sha256;
  double seconds = 0;
  std::optional<GoldenError> golden;
  std::optional<ProviderVerdict> provider;
  std::optional<SampledUlp> ulp;  // with golden and record
  // Whether all inputs had the provider's bytes, so that this result is also the isolated one.
  bool isolated = false;
  std::optional<Drift> repeat_drift, batch_drift;
};

struct BoundaryResult {
  std::string name, xxh3_128;
  Shape shape;
  std::optional<bool> equals_provider;
};

struct ReplayReport {
  ReplayRequest request;
  std::string graph, layout_sha256, weights, chain_isa;
  std::int64_t rows = 0;
  std::vector<float> timesteps;
  std::string provider;  // environment of the record, or why there is no verdict
  bool provider_recorded = false;
  std::vector<BoundaryResult> boundaries;
  std::vector<NodeResult> nodes;
  std::optional<std::int64_t> permuted_rows_changed;
  double seconds_candidate = 0, seconds_golden = 0;

  std::optional<Drift> first_drift() const;           // chained, against the provider
  std::optional<Drift> first_isolated_drift() const;  // among nodes whose inputs had the provider's bytes
  std::optional<Drift> first_repeat_drift() const;
  std::optional<Drift> first_batch_drift() const;
  Bindings bindings() const;
  // Strict: complete, every node so bound, no drift of any kind, every golden error inside its bound.
  bool accepted() const;
};

inline constexpr std::int64_t kReplaySteps = 18;  // the inputs and 17 nodes
using ReplayProgress = std::function<void(std::int64_t done, const std::string& next)>;
// Called after every node with all values that are still kept: its inputs, its result, and what later nodes
// read. The golden's are empty where the request leaves it out.
using ReplayObserver = std::function<void(const Node& node, const Values& candidate, const Values& golden)>;
ReplayReport replay_block(const ReplayRequest& request, const ReplayProgress& progress = {},
                          const ReplayObserver& observe = {});

}  // namespace h3
