// What the words of a difference look like: other ways to compute the same call, in other orders, with other
// roundings, with something left out. One that gives every word found is a likely explanation, and no proof.
#pragma once

#include <optional>
#include <string>

#include "harness/execution/node_call.h"

namespace h3 {

struct Appearance {
  std::string as;           // "K in 2 pieces, FP32 partial sums"
  std::int64_t others = 0;  // that give the same words, too
  std::int64_t tried = 0, words = 0;
};

// `found` is the result of the call somewhere else. Nothing where no known way gives all its words.
std::optional<Appearance> appearance_of(const NodeCall& call, const Tensor& found);

}  // namespace h3
