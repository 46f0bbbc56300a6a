// What kind of fault a difference is, as far as the tensors show it. A control states the class that it must
// be found as; the class is measured, never taken from the control.
#pragma once

#include <cstdint>

#include "model/tensor.h"

namespace h3 {

enum class FaultClass : std::uint8_t {
  none,             // no fault: the control is an honest change that must pass
  formula,          // other numbers
  layout,           // the same words at other places
  rounding,         // other words, no further away than a rounding at another place can move them
  not_repeatable,   // a second run, or the same rows in other company, give other bytes
  memory,           // elements that were never written
  non_finite,       // NaN or Inf where the expected value is finite
  rejection,        // refused with a typed error
  no_effect,        // the fault was planted and no word changed
  reference_fault,  // the candidate has the provider's bytes and the golden disagrees
  vacuous,          // nothing was compared, or nothing that has energy
  infrastructure,   // the run itself: a process, a report
};
const char* name_of(FaultClass fault);

// A relative L2 distance of a row up to which a difference counts as rounding: two BF16 epsilons.
inline constexpr double kRoundingDistance = 0x1p-6;

// From one tensor beside its unperturbed twin.
FaultClass classify(const Tensor& expected, const Tensor& got);

}  // namespace h3
