// How the nodes of a transformer block are shared among ranks, as data. Where a sum runs over more than one
// rank holds, its parts are brought together first and one rank folds them in the order of one rank; no plan
// adds what ranks have summed. So every plan has the bytes of one rank.
//
//   tensor    weights by outputs. Norms, modulation and gated residuals on a rank's own rows (sequence
//             parallel); the projections take all rows and give a rank's own heads or channels. The
//             projections that are usually split over K (o_proj, ffn_down) gather the parts of their input,
//             so that K is one ascending chain.
//   sequence  weights whole, every node on a rank's own rows; attention on a rank's own heads, by an exchange
//             of sequence for heads and back (as DeepSpeed-Ulysses does).
//   context   as sequence, attention of a rank's own query rows over all keys, whose blocks are taken in a
//             declared order.
//
// Backward, in every plan: a projection takes its input's own channels, all rows and all of dy, so that dX
// over N and dW over the rows are whole chains; sums over rows (norm weights, tables, gates) are folded from
// all rows, on every rank; attention goes by heads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/parallel/distribution.h"
#include "model/graph.h"

namespace h3 {

struct NodePlan {
  struct Pass {
    std::vector<Layout> inputs, parameters;  // as the node's arithmetic takes them; their gradients lie alike
    Layout output;                           // ... and what it makes, or the gradient that it takes
  };
  Pass forward, backward;
};

struct Plan {
  std::string name;
  std::map<std::string, NodePlan> nodes;
  std::map<std::string, Layout> homes;  // of graph inputs, nodes' outputs and parameters, and their gradients
  // Of `context`: the order in which rank i takes the keys of all ranks. The arithmetic is that of 0, 1, 2,
  // ...
  std::vector<std::vector<int>> key_blocks;
  // Nodes whose K is split over ranks and whose parts a collective would add. Empty in every comparable plan.
  std::vector<std::string> summed_by_a_collective;

  // Error, one line: sums that a collective adds, or blocks of keys lost or taken twice.
  void require_comparable(int ranks) const;
};

std::vector<std::string> plan_names();
Plan plan_named(const std::string& name, const Graph& block, int ranks);  // error naming the known ones

}  // namespace h3
