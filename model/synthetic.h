// The synthetic checkpoint, tensor by tensor: what stands in for the released weights, made on demand, with
// no file. model/synthetic_rule.h states the arithmetic; synthetic.cpp has the table of distributions and the
// hard places.
#pragma once

#include <cstdint>
#include <string>

#include "model/config.h"
#include "model/fingerprint.h"
#include "model/synthetic_rule.h"
#include "model/tensor.h"

namespace h3 {

// The distribution of a parameter tensor. `config` says which block is the hard one and how wide a channel
// group is.
SyntheticRule synthetic_rule(std::uint64_t seed, const Config& config, const TensorSpec& spec);

// The block whose logits are in the thousands, or -1. Its softmax is all but one-hot, and what BF16 leaves of
// the gradients of q and k is rounding errors: no distance to a golden tells a right one from a wrong one.
std::int64_t hot_block(const Config& config);

// Elements [first, first + count) into `out`, in the calling thread. bf16 and fp32.
void fill_range(const SyntheticRule& rule, DType dtype, std::int64_t first, std::int64_t count,
                std::byte* out);

// A whole parameter tensor, or some of its outermost rows. `threads` = 0 uses all cores; the bytes do not
// depend on it.
Tensor synthetic(std::uint64_t seed, const Config& config, const TensorSpec& spec, int threads = 0);
Tensor synthetic_rows(std::uint64_t seed, const Config& config, const TensorSpec& spec,
                      std::int64_t first_row, std::int64_t rows, int threads = 0);

// A stand-in for an activation: mean 0, zeros and powers of two planted. With `massive`, four channels
// (innermost extent) are 32 times as large, as in a block's input. bf16, fp16, fp32, fp64 (narrowed or
// widened from FP32).
Tensor synthetic_activation(std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype,
                            float std = 1, bool massive = false);

}  // namespace h3
