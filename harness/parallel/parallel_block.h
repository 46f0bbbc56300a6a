// A transformer block on several ranks, forward and backward, held byte for byte against one rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/provider_record.h"
#include "harness/execution/block_inputs.h"
#include "harness/parallel/parallel_plan.h"
#include "harness/parallel/rank_execution.h"

namespace h3 {

struct ParallelRequest {
  std::string config = "released";
  std::string layout = "tiny";
  std::string engine = "cpu";
  std::string plan = "tensor";
  int ranks = 2;
  int block = 0;
  std::uint64_t seed = kDefaultSeed;
  bool backward = true;
};

// What one rank computes, whole, on the CPU.
struct OneRank {
  explicit OneRank(const ParallelRequest& request);

  Config config;
  PackedLayout layout;
  Graph graph;
  std::unique_ptr<Weights> weights;
  Values inputs, forward;  // by graph input, by node
  Tensor output_gradient;
  Values gradients;  // by value and parameter; empty without backward
};

// One value, or the gradient of one, as a rank holds it.
struct RankValue {
  std::string value;
  bool gradient = false;
  std::int64_t elements = 0, differing = 0;
  std::optional<Drift> first;  // by row and column of the whole
};

struct RankReport {
  int rank = 0;
  std::vector<RankValue> values;  // in execution order
  Traffic traffic;
  bool equal() const { return !values.empty() && !first_drift(); }
  std::optional<Drift> first_drift() const;
};

// Faults that a control plants, each for this rank alone.
struct RankFaults {
  std::function<void(Holding&)> declared;  // what it says that it holds
  std::function<void(Values&)> inputs;     // its parts of what goes into the block
  bool any_plan = false;                   // run a plan that is not comparable, to see where it drifts
};

// This rank's share of the block. Before anything runs: plan and declared ownership must be comparable
// (Error).
RankReport run_rank(const ParallelRequest& request, const OneRank& one, const Plan& plan, Exchange& exchange,
                    const RankFaults& faults = {});

// All ranks in this process. `faults_of` may be empty; `limit` is that of one exchange.
inline constexpr TimeLimit kExchangeLimit = std::chrono::minutes(10);
std::vector<RankReport> run_logical_ranks(const ParallelRequest& request, const OneRank& one,
                                          const Plan& plan,
                                          const std::function<RankFaults(int rank)>& faults_of = {});

// The first drift in execution order over all ranks, of the lowest rank that has it.
std::optional<Drift> first_drift(std::span<const RankReport> reports);

}  // namespace h3
