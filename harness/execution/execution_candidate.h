// Other people's kernels as an execution: a shared library that exports harness/candidate/h3_candidate.h.
#pragma once

#include <memory>
#include <string>

#include "harness/execution/execution.h"

namespace h3 {

// Nodes whose forward or backward the library computes are bound as `candidate`; all others, and the
// boundaries of a single block, are the strict rows: the CPU twins, or for a library that takes device memory
// the kernels of engine cuda. Errors, one line: a file that is no library, lacks a function, speaks another
// version of the interface, computes no node; what the library itself reports.
std::unique_ptr<Execution> candidate_execution(const std::string& library, const Config& config = {});

}  // namespace h3
