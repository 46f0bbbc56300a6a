// The provider replayed op for op on this machine's GPU (golden/provider/), as an execution.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/execution/execution.h"

namespace h3 {

class ProviderExecution : public Execution {
 public:
  // Empty, or what this build or machine lacks for the node, one line; run() refuses with it.
  virtual std::string missing(const Node& node) const = 0;
  // Name and run-time version of every library that answers: {"cuBLAS", "13.1.0"}.
  virtual std::vector<std::pair<std::string, std::string>> libraries() const = 0;
};

// Variant "default" or "cublaslt" (golden/provider/products.h). Error, one line: built without what it needs,
// no Hopper GPU, or a library that is missing.
std::unique_ptr<ProviderExecution> provider_execution(const std::string& variant);

}  // namespace h3
