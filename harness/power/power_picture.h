// Detection floors as a picture: one line a tensor, a mark for every kind of fault, on a logarithmic axis.
#pragma once

#include <string>
#include <vector>

#include "harness/power/detection_floor.h"
#include "harness/report/svg.h"

namespace h3 {

std::string to_svg(const std::vector<TensorFloors>& tensors, const std::string& title,
                   const Style& style = {});

}  // namespace h3
