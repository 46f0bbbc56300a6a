#include "harness/execution.h"

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
  }
  return "?";
}

NodeGradients Execution::backward(const Node&, std::span<const Tensor>, std::span<const Tensor>,
                                  const Tensor&, const Tensor&) const {
  fail("engine {}: no backward", name());
}

std::unique_ptr<Execution> engine_named(const std::string& name, const Config& config) {
  if (name == "cpu") return cpu_execution(config);
  if (name == "cuda") return cuda_execution(config);
  fail("engine '{}': expected cpu or cuda", name);
}

#ifndef H3_HAVE_CUDA
namespace {
[[noreturn]] void no_toolkit() { fail("engine 'cuda': {}", H3_WITHOUT_CUDA); }
}  // namespace

std::unique_ptr<Execution> cuda_execution(const Config&) { no_toolkit(); }
std::unique_ptr<Execution> golden_execution_on_gpu(const Config&) { no_toolkit(); }
std::string cuda_device_name() { no_toolkit(); }
#endif

}  // namespace h3
