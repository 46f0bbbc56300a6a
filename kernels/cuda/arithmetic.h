// Whether this build's kernels round as IEEE says: asked of the GPU itself, once, before strict kernels run.
#pragma once

#include <string>

namespace h3::cuda {

// Empty, or what the compiler was allowed to change, one line: contraction, flushed subnormals, division,
// square root.
std::string wrong_arithmetic();

}  // namespace h3::cuda
