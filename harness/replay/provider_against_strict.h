// The provider's operations and the strict rows side by side on this machine's GPU, node by node on the same
// inputs: at any number of rows, without a record and without a golden.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/provider_record.h"
#include "model/layout.h"

namespace h3 {

struct NodeAgainstStrict {
  std::string node;
  std::string refused;  // why the provider did not answer, one line; then nothing was compared
  std::int64_t elements = 0, differing = 0;  // words that are not the same bits
  std::optional<Drift> first;                // set when some differ
  std::string xxh3_128;                      // of the provider's bytes
};

struct ProviderAgainstStrict {
  std::string part, variant, device;  // "block 0" or "refiner"
  std::string inputs;                 // what they are
  std::int64_t rows = 0;
  std::vector<std::pair<std::string, std::string>> libraries = {};  // name and version
  std::vector<NodeAgainstStrict> nodes = {};
  bool equal() const;  // every node was compared and none differs
};

using ProviderProgress = std::function<void(std::int64_t done, std::int64_t steps, const std::string& next)>;

// Synthetic weights. Isolated: both sides of a node take the provider's outputs of the nodes before it (where
// the provider refused, the strict row's). Errors: what provider_execution says.

// Block 0.
ProviderAgainstStrict compare_provider(const PackedLayout& layout, const std::string& variant,
                                       const ProviderProgress& progress);

// What the text goes through before it is packed: context_embedder, both refiner blocks, their final norm.
ProviderAgainstStrict compare_provider_refiner(std::int64_t text_rows, const std::string& variant,
                                               const ProviderProgress& progress);

}  // namespace h3
