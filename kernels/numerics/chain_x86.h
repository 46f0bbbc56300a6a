// The rounding mode of the chain's fast path on x86.
#pragma once

#include <immintrin.h>

namespace h3::numerics {
namespace {

// Conversions to FP32 truncate, and products below 2^-126 (all of which align to zero) are flushed without a
// stall.
class X86RoundTowardZero {
 public:
  X86RoundTowardZero() : saved_(_mm_getcsr()) {
    _mm_setcsr(saved_ | _MM_ROUND_TOWARD_ZERO | _MM_FLUSH_ZERO_ON);
  }
  ~X86RoundTowardZero() { _mm_setcsr(saved_); }
  X86RoundTowardZero(const X86RoundTowardZero&) = delete;
  X86RoundTowardZero& operator=(const X86RoundTowardZero&) = delete;

 private:
  unsigned saved_;
};

}  // namespace
}  // namespace h3::numerics
