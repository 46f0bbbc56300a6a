// What the replays and the full-model reports say about tensors, in one form: where a tensor belongs, how far
// it is from the golden, whose bytes it has.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/page/inputs.h"

namespace h3::page {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Where a tensor belongs: a boundary (index -1), a refiner block or a transformer block; a parameter belongs
// to the node that reads it.
struct Place {
  enum class Part { boundary, refiner, block } part = Part::boundary;
  int index = -1;
  std::string node = {};
};

// Relative L2 distance to the golden. A bound of 1 or more is blind: it decides nothing.
struct Distance {
  double error = kNone, bound = kNone;
  std::optional<std::pair<double, double>> provider = {};  // the provider's own distance: smallest, largest
  std::string from = {};                                   // the object that says so: "2/tensors/17/chained"

  bool blind() const { return bound >= 1; }
  double used() const { return error / bound; }
  bool exceeded() const { return !blind() && !(error <= bound); }
};

enum class Bytes { not_compared, same, differ, not_repeatable };

struct Reading {
  Pass pass = Pass::forward;
  std::string name = {};  // without the block's prefix
  Place place = {};
  std::optional<Distance> chained = {}, isolated = {};
  Bytes provider = Bytes::not_compared, isolated_bytes = Bytes::not_compared;
  Bytes repeat = Bytes::not_compared, batch = Bytes::not_compared;
  std::string digest = {}, reason = {};  // reason: why it is not accepted, one line
  bool accepted = true;
  std::string from = {};  // "2/tensors/17"
};

struct Drift {
  std::string name, found;  // first_drift; "none", where, or "not checked"
  bool none = true;
};

struct TensorReport {
  std::size_t source = 0;
  bool whole_model = false;
  std::string graph = {}, config = {}, layout = {}, engine = {}, device = {}, weights = {}, provider = {};
  std::int64_t rows = 0;
  bool accepted = false;
  std::vector<Reading> readings = {};  // forward in execution order, then backward
  std::vector<Drift> drifts = {};

  std::string subject() const;  // "block 0, tiny (S = 264)"
};

// Errors name the source and what it lacks.
std::vector<TensorReport> tensor_reports(const Inputs& inputs);

// The rows of a drift map: the 17 nodes of a block.
std::vector<std::string> block_nodes();

}  // namespace h3::page
