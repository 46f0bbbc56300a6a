// The list of controls by what they run in.
#pragma once

#include <vector>

#include "harness/power/controls/control.h"

namespace h3 {

std::vector<Control> controls_in_the_graph();   // planted at a node of the narrow model
std::vector<Control> controls_around_it();      // layouts, schedules, contracts, comparisons, fixtures
std::vector<Control> controls_held_by_cases();  // of a gate, by their names in ctest/required

}  // namespace h3
