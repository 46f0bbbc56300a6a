// Replays block 0 through the provider's own operations on this machine's GPU and compares every node with
// what the real provider recorded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/provider_record.h"
#include "harness/execution/execution.h"

namespace h3 {

struct ProviderLibrary {
  std::string name, version;        // of the library that answered
  std::optional<bool> as_recorded;  // absent: the record does not hold its version
};

struct ProviderReplayNode {
  std::string node;
  Binding binding = Binding::native;  // `row` when the provider refused and the strict row stood in
  std::string refused;                // why it refused, one line
  std::string sha256;
  std::int64_t rows = 0;
  ProviderVerdict verdict;
};

struct ProviderReplay {
  std::string layout, variant, device;
  std::string recorded;  // environment of the record
  std::vector<ProviderLibrary> libraries;
  std::vector<ProviderReplayNode> nodes;
  bool equal() const;  // every node, stand-ins too
};

// Chained: a node takes the outputs of this replay. Inputs of the block are the strict boundaries' bytes,
// which have to be the recorded ones. Errors: no record of the layout, other inputs than the record's, what
// provider_execution says.
ProviderReplay replay_provider(
    const std::string& layout, const std::string& variant,
    const std::function<void(std::int64_t done, std::int64_t steps, const std::string& next)>& progress);

}  // namespace h3
