// One node, one execution, one tensor: the interface behind which the candidate's rows, the golden and the
// provider's record stand side by side.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

// What computed a node. A strict run is accepted only when every node is `row`.
enum class Binding { row, interim, reference, native };
const char* name_of(Binding binding);

class Execution {
 public:
  virtual ~Execution() = default;
  virtual std::string name() const = 0;
  virtual Binding binding(const Node& node) const = 0;
  // Inputs and parameters in the node's own order. A node without an implementation is an Error, never a
  // fallback.
  virtual Tensor run(const Node& node, std::span<const Tensor> inputs,
                     std::span<const Tensor> parameters) const = 0;
};

// The strict rows' CPU twins: BF16 between nodes, the bytes that a Hopper GPU computes.
std::unique_ptr<Execution> cpu_execution();

// FP32 between nodes, FP64 accumulation. `ordered` sums in one fixed order (byte for byte on any machine);
// otherwise the large products go through a BLAS.
std::unique_ptr<Execution> golden_execution(bool ordered);

}  // namespace h3
