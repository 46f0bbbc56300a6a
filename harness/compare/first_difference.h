// Whether two tensors are the same, and where two results of one node first part: by row, head and element.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/compare/provider_record.h"
#include "model/tensor.h"

namespace h3 {

// In type, shape and every byte.
bool identical(const Tensor& a, const Tensor& b);

// Nothing when all bytes are equal. `rows` names the rows of both in the whole sequence, empty: all of them;
// `what` says what `got` is. A tensor of three extents is (rows, heads, channels) and has its head named.
std::optional<Drift> first_difference(const std::string& name, const Tensor& expected, const Tensor& got,
                                      const std::string& what, std::span<const std::int64_t> rows = {});

}  // namespace h3
