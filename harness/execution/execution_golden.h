// The golden with a choice of how its large sums are made.
#pragma once

#include "golden/product.h"
#include "harness/execution/execution.h"

namespace h3 {

std::unique_ptr<Execution> golden_execution(golden::Summation summation, const Config& config);

}  // namespace h3
