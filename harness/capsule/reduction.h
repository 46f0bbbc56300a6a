// A difference, reduced: of a node's call the rows, the head or the columns that show it, and of its sum,
// where the candidate can be asked again, the part that still does. What is left is a call of the same node
// on small operands, because every strict row depends on its own row, head or column of the operands alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/execution/node_call.h"

namespace h3 {

// Nodes whose parts add up to one gradient have one call each; every other result has one.
using Calls = std::vector<NodeCall>;

// In the order of the calls, each sum rounded once to the type (harness/execution/backward_chain.h).
Tensor run(const Calls& calls, const Execution& execution);

struct Reduced {
  Calls calls;
  std::int64_t row = -1, head = -1, column = -1;  // in the whole result, of its first differing element
  std::vector<std::int64_t> rows, columns;        // of the whole result, that the calls give
  Tensor expected, found;                         // the results of the calls
  // Operands that do not fit were cut: `expected` is what is left of them gives, `found` is of the whole.
  bool cut_short = false;
  std::vector<std::string> steps;  // what was done, one line each
};

inline constexpr std::size_t kCapsuleBytes = 1'000'000;  // of a file; operands take at most nine tenths

// The candidate for a configuration; asked on smaller and smaller operands.
using MakeExecution = std::function<std::unique_ptr<Execution>(const Config& config)>;

// `calls` are the whole ones on the CPU, `expected` and `found` their results; they differ. Without a
// candidate the found words are taken from `found`. Errors: results that are equal or do not fit, a node
// outside the blocks.
Reduced reduced(const Calls& calls, const Tensor& expected, const Tensor& found,
                const MakeExecution& candidate = {});

// The order in which the row sums and rounds what the call computes, one line.
std::string declared_order(const NodeCall& call);

}  // namespace h3
