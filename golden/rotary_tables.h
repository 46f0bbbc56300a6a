// Cosines and sines of the three-axis rotary embedding (provider: MiniMaxH3RotaryPosEmbed).
//   angle = f32(f32(position) f32(inverse frequency)): the FP32 angle is part of the definition (at a
//   position of 1000 its rounding turns by 3e-5 radians); its cosine and sine are FP64, stored FP32. Columns
//   t(f) | h(f) | w(f), then the same 3f again: both partners of a pair read their own column.
#pragma once

#include "model/tensor.h"

namespace h3::golden {

struct RotaryTables {
  Tensor cos, sin;  // (S, 6f) FP32
};

// Absolute: the angles are equal, cosf and sinf err by two units in the last place, the golden's store by a
// half.
inline constexpr double kRotaryTableBound = 2.5 * 0x1p-24;

// inv[k] = f32(1 / f32(theta^(k/f))), k < f, the power correctly rounded to FP32.
Tensor rotary_frequencies(std::int64_t freq_dim = 16, double theta = 10000.0);

// positions (S, 3) FP64 or FP32: t, h, w; |angle| <= 1e5. frequencies (f) FP32.
RotaryTables rotary_tables(const Tensor& positions, const Tensor& frequencies);

}  // namespace h3::golden
