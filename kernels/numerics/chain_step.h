// One step of the chain in integers, straight from the rule in chain.h, for every operand there is. This is
// the only place that says what happens off the beaten track:
//   - zeros do not take part in the largest exponent, which is never below -133 (the smallest BF16 subnormal is 2^-133);
//   - a subnormal has the exponent of the smallest normal (-126) and a significand below 1, as stored;
//   - a sum of zero is +0, whatever the signs;
//   - the result may be subnormal; a result of 2^128 or more becomes an infinity;
//   - infinities follow IEEE 754; every NaN result is 0x7fffffff.
#pragma once

#include "model/dtype.h"

namespace h3::numerics {

// c + sum of a[k] * b[k] over 16 consecutive k.
float chain_step(const Bf16* a, const Bf16* b, float c);

}  // namespace h3::numerics
