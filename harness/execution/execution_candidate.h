// Other people's kernels as an execution: a shared library that exports harness/candidate/h3_candidate.h.
#pragma once

#include <memory>
#include <string>

#include "harness/execution/execution.h"

namespace h3 {

// Nodes that the library computes are bound as `candidate`; all others, and every backward, are the CPU
// twins. Errors, one line: a file that is no library, lacks a function, or speaks another version of the
// interface.
std::unique_ptr<Execution> candidate_execution(const std::string& library, const Config& config = {});

}  // namespace h3
