// Where the cells of a matrix lie among ranks, and how they get from one such place to another: copies only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/parallel/exchange.h"
#include "model/ownership.h"
#include "model/tensor.h"

namespace h3 {

// Every rank holds the whole, or its share of the rows or columns, or rank 0 holds it alone.
struct Layout {
  enum class Axis { whole, rows, columns, root } axis = Axis::whole;
  Kind kind = Kind::rows;
  bool operator==(const Layout&) const = default;
  std::string to_string() const;  // "whole", "rows by heads", "columns by hidden_channels", "on rank 0"
};
inline constexpr Layout kWhole{}, kRoot{Layout::Axis::root};
constexpr Layout rows_by(Kind kind) { return {Layout::Axis::rows, kind}; }
constexpr Layout columns_by(Kind kind) { return {Layout::Axis::columns, kind}; }

struct Extent {
  std::int64_t rows, cols;
};

// What one rank holds: every cell whose row and column are in these runs, row-major. Runs ascend.
struct Part {
  std::vector<Run> rows, cols;
  std::int64_t height() const;
  std::int64_t width() const;
  std::int64_t row(std::int64_t local) const;  // of the whole matrix
  std::int64_t col(std::int64_t local) const;
};

// Error when the extent is not a multiple of what the kind deals out. An extent of several times that (value
// and gate of a feed-forward) is dealt out time by time.
Part part_of(const Ownership& ownership, Layout layout, Extent extent, int rank);

// The cells of `wanted` out of a tensor that holds `held`; all of them must be there. On either device.
Tensor cut(const Tensor& from, const Part& held, const Part& wanted);

// This rank's part of `to`, when every rank has its part of `from`. Without bytes where it is there already.
Tensor redistribute(const Tensor& mine, const Ownership& ownership, Layout from, Layout to, Extent extent,
                    Exchange& exchange, const std::string& node);

}  // namespace h3
