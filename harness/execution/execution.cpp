#include "harness/execution/execution.h"

namespace h3 {

const char* name_of(Binding binding) {
  switch (binding) {
    case Binding::row:
      return "row";
    case Binding::interim:
      return "interim";
    case Binding::reference:
      return "reference";
    case Binding::native:
      return "native";
    case Binding::candidate:
      return "candidate";
  }
  return "?";
}

void Bindings::count(Binding binding) {
  row += binding == Binding::row;
  candidate += binding == Binding::candidate;
  ++nodes;
}

NodeGradients Execution::backward(const Node&, std::span<const Tensor>, std::span<const Tensor>,
                                  const Tensor&, const Tensor&) const {
  fail("engine {}: no backward", name());
}

}  // namespace h3
