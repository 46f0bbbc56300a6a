// Executions by name. Apart from harness/execution/execution.cpp, so that a program with one engine links no
// other.
#include "harness/execution/execution.h"
#include "harness/execution/execution_candidate.h"

namespace h3 {

std::unique_ptr<Execution> engine_named(const std::string& name, const Config& config) {
  if (name == "cpu") return cpu_execution(config);
  if (name == "cuda") return cuda_execution(config);
  if (name.ends_with(".so")) return candidate_execution(name, config);
  fail("engine '{}': expected cpu, cuda or a candidate's library (.so)", name);
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
